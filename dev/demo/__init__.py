"""The demo: one model at two speeds on a real Kubernetes, from image build to clean-up."""
