package main

const unitDir = "../../dist/systemd"

const tmpfile = "../../dist/tmpfiles.d/rds.conf"
