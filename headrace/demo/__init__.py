"""The demo: real models out of PyPI packages, real inputs, the development stack, and a table of answers."""
