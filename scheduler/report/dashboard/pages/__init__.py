"""The data of each page, from the state. Pure: times are arguments.

Long pages are built in parts (``state/parts``), so that the loop runs between them.
"""
