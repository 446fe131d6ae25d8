"""The engine: exactness of every shape and speed, life of requests, kept programs."""
