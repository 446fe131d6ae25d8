"""What runs on an AWS Neuron device, as far as it shows without one."""
