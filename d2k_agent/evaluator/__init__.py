"""Decides correctness, rule compliance and latency of one candidate. Started as a process, never imported.

Covers: the supervisor that judges, the zygotes that fork confined candidates, the devices they run on.
Does not cover: how a job arrives (launchers) or what a verdict means for a run (agent, reports).
Imports the contract, isolation, the standard library, torch and triton, so that a bare GPU machine can run it.
"""
