"""`python3 -m d2k_agent`: the command line, also on a machine where nothing of ours is installed."""

from __future__ import annotations

import sys

from d2k_agent.cli import main

sys.exit(main())
