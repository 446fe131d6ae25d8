"""What an AWS Neuron device refuses, found on the lowered program before any compiler is asked."""
