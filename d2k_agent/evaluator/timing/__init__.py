"""Latency, measured so that the candidate's own clock need not be believed.

policy   which calls are timed, in which mode, over how many sets of inputs: the ids that a measurement carries
timed    the candidate's side: batches, graphs, steps in lockstep, answers
page     a page of memory that both sides look at while calls are timed
graph    a captured graph of calls, and the names of its kernels
measure  the supervisor's side: draws, flags, wall clock, audit, verified outputs
session  candidate and baseline of one evaluator's life: A B B A, drift, speedups
"""
