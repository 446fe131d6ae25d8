"""The network of real nodes: addresses, bridges, firewall, DNS, Services."""
