"""A folder for the PYTHONPATH of interpreters that start confined; it holds nothing but their sitecustomize."""

from __future__ import annotations
