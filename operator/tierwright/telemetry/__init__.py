"""What the process tells about itself: metrics and structured logs."""
