"""The composition root: the only place that names concrete classes and reads the environment.

surroundings    what this process was given: folder, environment, settings file
launching       the evaluator's process, here or through a command prefix
evaluation      from a candidate's file to a job and its verdict
incumbent       the score that a submission has to beat
host_tools      submit, compile and profile as the agent's tools
choosing_model  a model from its name
driving         one run driven from where it stands
solving         start, resume and replay runs
scoring         a run's winner judged and measured once more, here or elsewhere
exporting       the same as a folder that does it on the machine where it is opened (bundle, bundle_score, bundle_entry)
inventory       find, list, follow, stop and remove runs
doctor          what this machine can do

Importing any of them needs the standard library only; what a command needs beyond is imported when it runs.
"""
