"""Every port and socket on which both programs listen: one acceptor in front of aiohttp.

``post_request`` is the client for requests between our programs.

::

    listener --plain sockets--> acceptor --TLS--> connection --> aiohttp's parser --> server | pages
"""
