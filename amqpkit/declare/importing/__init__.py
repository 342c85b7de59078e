"""What a broker or a definitions file has, as a topology file.

Pure: values in, values out; no module here knows a broker, a file or a clock.
"""
