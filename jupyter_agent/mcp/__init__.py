"""Servers of the Model Context Protocol: what is configured, the processes, the connections.

    definitions   mcp.json, read strictly
    names         `server__tool`, valid for every provider
    schemas       what a server says of its tools' arguments, made safe to pass on
    supervise     a program: ends a server with the kernel that started it
    stderr        what a server writes to its stderr, in a bounded file
    connection    the only module that imports the SDK
    server        one server: the task that holds its connection open
    servers       all servers of one kernel

The SDK is called `mcp`, too: imports here are absolute.
"""
