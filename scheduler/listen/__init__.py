"""Every port and socket that both programs listen on: one acceptor in front, aiohttp behind it.

::

    listener --plain sockets--> acceptor --TLS--> connection --> aiohttp's parser --> server | pages
"""
