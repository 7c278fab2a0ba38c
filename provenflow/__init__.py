"""Verifiable AI-agent execution on EVM chains."""

__version__ = "0.1.0"
