"""What tests of the hub, and of environments that third parties write for it, are made of."""
