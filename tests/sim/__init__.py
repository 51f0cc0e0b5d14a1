"""Simulated clusters in virtual time: worked timelines, and seeded random schedules (`python -m tests.sim`)."""
