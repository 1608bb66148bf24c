"""What tool programs import inside the sandbox: standard library only, and nothing of this package.

A program finds this folder in the environment variable D2K_TOOL_LIBRARY.
"""

from __future__ import annotations
