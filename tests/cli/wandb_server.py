"""A server for `wandb sync`, as far as an upload needs one: wandb_server.py PORT_FILE UPLOADS.

Writes its port to PORT_FILE, and at each upload all runs to UPLOADS as JSON: {id: {"project", "entity", "name", "config",
"rows": the lines of history, "exit": the exit code}}. Serves any number of runs until it is killed.
"""

import gzip
import http.server
import json
import os
import sys
import threading

runs = {}
lock = threading.Lock()


def bucket(run):
    return {"id": run, "name": run, "displayName": run, "config": None, "sweepName": None, "description": "",
            "historyLineCount": len(runs[run]["rows"]),
            "project": {"id": "1", "name": "p", "entity": {"id": "1", "name": "e"}}}


def answer(query, variables):
    if "upsertBucket" in query:
        run = runs.setdefault(variables["name"], {"rows": [], "exit": None})
        for key, field in (("project", "project"), ("entity", "entity"), ("name", "displayName"), ("config", "config")):
            if variables.get(field):
                run[key] = variables[field]
        return {"upsertBucket": {"bucket": bucket(variables["name"]), "inserted": True}}
    if "createRunFiles" in query:
        files = [{"name": name, "uploadUrl": f"http://127.0.0.1:{port}/{name}"} for name in variables["files"]]
        return {"createRunFiles": {"runID": "1", "uploadHeaders": [], "files": files}}
    if "bucket(" in query:  # asked with --append
        run = runs.get(variables["name"])
        resumed = run and {**bucket(variables["name"]), "historyTail": json.dumps([json.dumps(row) for row in run["rows"][-1:]]),
                           "eventsTail": "[]", "eventsLineCount": 0, "logLineCount": 0, "summaryMetrics": "{}",
                           "config": "{}", "tags": [], "wandbConfig": '{"t": 1}'}
        return {"model": {"id": "1", "name": "p", "entity": {"id": "1", "name": "e"}, "bucket": resumed}}
    if "viewer" in query:
        return {"viewer": {"id": "1", "entity": "e", "username": "u", "flags": "{}", "teams": {"edges": []}}}
    return {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def reply(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        with lock:
            text = json.dumps(self.take(body)).encode()
            with open(uploads + ".tmp", "w") as file:
                json.dump(runs, file)
            os.replace(uploads + ".tmp", uploads)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def take(self, body):
        if self.path == "/graphql":
            request = json.loads(body)
            return {"data": answer(request["query"], request.get("variables") or {})}
        if self.path.endswith("/file_stream"):
            run, request = runs[self.path.split("/")[-2]], json.loads(body)
            history = (request.get("files") or {}).get("wandb-history.jsonl")
            if history:
                run["rows"][history["offset"]:] = [json.loads(line) for line in history["content"]]
            if request.get("complete"):
                run["exit"] = request["exitcode"]
        return {}

    do_GET = do_POST = do_PUT = reply


port_file, uploads = sys.argv[1:]
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
port = server.server_address[1]
with open(port_file + ".tmp", "w") as file:
    print(port, file=file)
os.replace(port_file + ".tmp", port_file)
server.serve_forever()
