"""Immutable objects named by their hash, and the small manifests that make a checkpoint of them."""
