"""Every port and socket that both programs listen on: one acceptor in front, aiohttp behind it.
``asking`` is the other end, where one of our programs asks another.

::

    listener --plain sockets--> acceptor --TLS--> connection --> aiohttp's parser --> server | pages
"""
