"""What the API server would do with an object of the input before any webhook sees it.

rejection      what it rejects: the first field, with the path that it reports
unknown_fields what it drops: fields that the API does not have
"""
