"""A modelled latency without a GPU: launches of run() interpreted in part, counted, and put under a roofline.

Covers: lazy tensors (lazy.py), which programs and trips stand for the others (sampling.py, loops.py), what the
interpreter counts (builder.py, counting.py), launches (launching.py), the model (roofline.py), one job from end to end
(job.py) and how it is reached in a confined process (serving.py). Does not cover anything measured.
"""
