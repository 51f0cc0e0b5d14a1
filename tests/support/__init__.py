"""What tests stand on: virtual time, an in-process world, builders. Not product code; imported by tests only."""
