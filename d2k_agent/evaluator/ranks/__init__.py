"""Tasks for several ranks: one candidate process a rank, which exchange data through lent workspaces and signal pads.

Everything here looks to the judge like the work of a single process. RankedTask lays the arguments and outputs of all
ranks in a row, RankedDevice lends them part by part, RankGroup stands for the processes. So the order of checks, the
series and the timing are those of any task. Nothing here knows a task by name: a task whose config.json has `ranks` is
one for several.
"""
