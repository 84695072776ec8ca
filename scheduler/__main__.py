"""``python -m scheduler``."""

import sys

from scheduler.app import main

sys.exit(main())
