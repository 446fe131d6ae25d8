"""What the tests share: waiting on conditions, talking to the API server, running the operator as it is shipped."""
