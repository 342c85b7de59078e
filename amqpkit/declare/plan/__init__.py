"""What applying a topology would do to what a broker has: changes, risks, obstacles.

Pure: two values in, one out; no module here knows a broker, a file or a clock.
"""
