"""The checks of a submission, one unit with one name each: static rules, compilation, correctness of call series."""
