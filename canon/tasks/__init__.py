"""What is predicted, its loss, and the metrics that judge it: one class per kind of target (table.py).

A task binds a system's network to an objective and metrics, so that networks stay plain modules (inputs to logits)
and two systems of one task are judged by exactly the same numbers. Records (records.py) are read without torch.
"""
