"""Tests of the autoscaling benchmark that need its referee; `dev/test_bench.sh` runs them in an environment of their own."""
