"""The worker: owns live episodes and serves them to controllers."""
