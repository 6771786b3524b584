"""Runs in a bucket: each byte goes up once, verified, and comes down anywhere."""
