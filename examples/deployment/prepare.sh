#!/bin/sh
# A certificate for the SuperLink, and a key for each client, in /keys; once.
set -eu
cd /keys
[ -f ca.crt ] || fedamd federation certificates --host superlink --out /keys
for client in 0 1 2; do
    [ -f "client-$client" ] || python -c "
from pathlib import Path
from fedamd.flower.local.certificates import write_client_key
write_client_key(Path('client-$client'))"
done
for client in 0 1 2; do echo "$client $(cat "client-$client.pub")"; done > clients.txt
