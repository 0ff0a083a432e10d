"""FedAMD and every other method of the package over a real network, on Flower (https://flower.ai).

Flower is one more engine: the server drives an algorithm's generator with the ordinary round loop, and `FlowerEngine`
carries every exchange to the clients as messages. A client runs the same role functions on data that never leaves it.

app/     server    server.py (the ServerApp) · engine.py (exchanges over a Grid) · mailbox.py (messages out, replies in)
                   letterbox.py (all replies with one question) ·
                   roster.py (which node is which client) · rehearsal.py (what a valid reply looks like) ·
                   acknowledged.py (which version of a client's vectors the server has accepted)
         client    client.py (the ClientApp) · memory.py (what a client holds, on its own disk)
         both      settings.py ([federation]) · task.py (what is trained) · wire.py (what a message contains) · roles.py
node/    a client that stays, in the place of Flower's SuperNode
local/   inprocess.py (a Grid in one process) · loopback.py (SuperLink and clients on 127.0.0.1) · launch.py ·
         certificates.py · processes.py
"""
