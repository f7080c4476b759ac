"""The tests here import the generator and the independent reader, which lie beside them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
