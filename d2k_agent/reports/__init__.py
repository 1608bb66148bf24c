"""Scores, tables and sentences: pure functions from verdicts, events and records to text and JSON data.

Covers wording and layout. Does not cover reading files, printing, colours or deciding anything.
"""
