"""A lane under a steady load for an hour or a day: samples of its resource usage, and whether that grows.

sample   one sample
measure  the run
verdict  growth and its limits
section  the section of the page, and its picture
"""
