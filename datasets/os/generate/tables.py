"""Templates on CSV and JSON files: counting, adding, joining, converting and editing records."""

# ruff: noqa: E501  # wordings and scripts are kept in one piece
from __future__ import annotations

import csv
import io
import json
from collections import Counter, defaultdict
from typing import Any

from drafts import Draft, Scope, change, integer, string, template
from growth import name
from tree import json_check, state_check
from words import CITIES, PEOPLE, PROJECTS, SERVICES

AMOUNT = (100, 99_999)


def _orders(scope: Scope, path: str, n: int) -> list[dict[str, str]]:
    """A CSV of orders with quoted cells that hold commas; some amounts are empty."""
    towns = ['"Riga, Old Town"', '"Porto ""Norte"""', *scope.some(CITIES, 5)]
    form = "{n},{},{},{}{},{}"
    lines = scope.tree.bulk(
        path, scope.seed(), n, form, scope.some(PEOPLE, 9), towns, AMOUNT, ["", "", "", "", "0"], ["open", "paid", "paid", "void", "PAID"],
        head="id,customer,city,amount,status\n", end=scope.pick("\n", "\n", "\r\n"),
    )  # fmt: skip
    text = "id,customer,city,amount,status\n" + "".join(line + "\n" for line in lines)
    return list(csv.DictReader(io.StringIO(text)))


@template("data", "medium", 3)
def sum_csv(scope: Scope) -> Draft | None:
    path = f"{scope.home()}/{scope.stem()}.csv"
    rows = _orders(scope, path, scope.between(90, 260))
    town = scope.pick(*[row["city"] for row in rows])
    status = scope.pick("paid", "open", "void")
    fits = [int(row["amount"]) for row in rows if row["city"] == town and row["status"] == status]
    question = scope.what(
        f"the sum of the column amount in the CSV file {path} over the rows whose city is exactly {town} and whose status is exactly '{status}' (lower case)",
        "Cells may be quoted and hold commas.",
    )
    test = f"r['city'] == {town!r} and r['status'] == '{status}'"
    solution = f"python3 - <<'END'\nimport csv\nprint(sum(int(r['amount']) for r in csv.DictReader(open('{path}', newline='', encoding='utf-8')) if {test}))\nEND"
    slips = (
        sum(int(row["amount"]) for row in rows if row["city"] == town),
        len(fits),
        sum(int(row["amount"]) for row in rows if row["status"] == status),
    )
    return integer(scope, question, sum(fits), solution, *slips, tags=["csv", "sum"])


@template("data", "medium", 2)
def best_customer(scope: Scope) -> Draft | None:
    path = f"{scope.home()}/{scope.stem()}.csv"
    rows = _orders(scope, path, scope.between(90, 200))
    sums: Counter[str] = Counter()
    for row in rows:
        if row["status"].lower() == "paid":
            sums[row["customer"]] += int(row["amount"])
    (best, most), (second, less) = sums.most_common(2)
    if most == less:
        return None
    question = scope.ask(
        f"In the CSV file {path}, which customer has the largest total amount over all rows with status paid (in any case)?",
        f"Add up the paid amounts (status paid, upper or lower case) of each customer in {path}: whose total is the largest?",
    )
    solution = (
        f"python3 - <<'END'\nimport collections, csv\ns = collections.Counter()\nfor r in csv.DictReader(open('{path}', newline='', encoding='utf-8')):\n"
        "    if r['status'].strip().lower() == 'paid':\n        s[r['customer']] += int(r['amount'])\nprint(s.most_common(1)[0][0])\nEND"
    )
    return string(scope, question, best, solution, second, str(most), tags=["csv", "group"])


@template("data", "hard", 2)
def join_csv(scope: Scope) -> Draft | None:
    root = scope.home()
    people = scope.some(PEOPLE, 14)
    regions = ["north", "south", "east", "west"]
    homes = {person: scope.pick(*regions) for person in people}
    scope.tree.file(
        f"{root}/customers.csv",
        "customer;region\r\n"
        + "".join(f"{person};{region}\r\n" for person, region in homes.items() if person != people[0]),
    )
    lines = scope.tree.bulk(
        f"{root}/orders.csv",
        scope.seed(),
        scope.between(80, 200),
        "{n},{},{}",
        people,
        AMOUNT,
        head="id,customer,amount\n",
    )
    region = scope.pick(*regions)
    sums: dict[str, int] = defaultdict(int)
    for line in lines:
        _, person, amount = line.split(",")
        sums["unknown" if person == people[0] else homes[person]] += int(amount)
    if scope.chance(0.3):
        region = "unknown"
        question = scope.what(
            f"the total amount in {root}/orders.csv of customers that do not occur in {root}/customers.csv",
            "The second file uses semicolons and Windows line ends.",
        )
        test = "r['customer'] not in home"
    else:
        question = scope.what(
            f"the total amount of the orders in {root}/orders.csv from customers of region {region}",
            f"The regions are in {root}/customers.csv, which uses semicolons.",
        )
        test = f"home.get(r['customer']) == '{region}'"
    solution = (
        f"python3 - <<'END'\nimport csv\nhome = {{r['customer']: r['region'] for r in csv.DictReader(open('{root}/customers.csv', newline=''), delimiter=';')}}\n"
        f"print(sum(int(r['amount']) for r in csv.DictReader(open('{root}/orders.csv', newline='')) if {test}))\nEND"
    )
    return integer(
        scope,
        question,
        sums[region],
        solution,
        sum(sums.values()),
        *[amount for key, amount in sums.items() if key != region][:2],
        tags=["csv", "join"],
    )


def _inventory(scope: Scope, path: str) -> list[dict[str, Any]]:
    """A JSON list of hosts, spelled in the way of some program."""
    hosts: list[dict[str, Any]] = []
    for number in range(scope.between(14, 26)):
        services = [
            {"name": each, "port": scope.between(2000, 9999), "enabled": scope.chance(0.6)}
            for each in scope.some(SERVICES, scope.between(0, 3))
        ]
        host: dict[str, Any] = {
            "host": f"{scope.pick(*PROJECTS)}-{number}",
            "cores": scope.pick(2, 4, 8, 16),
            "tags": scope.some(["db", "web", "edge", "old"], 2),
            "services": services,
        }
        if scope.chance(0.2):
            host["retired"] = scope.chance(0.7)
        hosts.append(host)
    layout = scope.pick({"indent": 1}, {"separators": (",", ":")})
    scope.tree.file(path, json.dumps({"version": 3, "hosts": hosts}, **layout) + "\n")  # type: ignore[arg-type]  # layout of dumps
    return hosts


@template("data", "easy", 3)
def query_json(scope: Scope) -> Draft | None:
    path = f"{scope.home()}/{scope.stem()}.json"
    hosts = _inventory(scope, path)
    tag = scope.pick("db", "web", "edge", "old")
    active = [host for host in hosts if not host.get("retired")]
    tagged = [host for host in active if tag in host["tags"]]
    load = f"import json\nhosts = json.load(open('{path}'))['hosts']\nlive = [h for h in hosts if not h.get('retired') and '{tag}' in h['tags']]\n"
    which = (
        f"hosts in {path} that have the tag '{tag}' and are not retired (a host without the key retired is not retired)"
    )
    if scope.chance(0.4):
        gold = sum(int(host["cores"]) for host in tagged)
        question = scope.what(f"the total number of cores of the {which}")
        return integer(
            scope,
            question,
            gold,
            f"python3 - <<'END'\n{load}print(sum(h['cores'] for h in live))\nEND",
            len(tagged),
            tags=["json", "sum"],
        )
    ports = [service["port"] for host in tagged for service in host["services"] if service["enabled"]]
    if len(set(ports)) < 2:
        return None
    end = scope.pick("highest", "lowest")
    gold = max(ports) if end == "highest" else min(ports)
    every = [service["port"] for host in hosts for service in host["services"]]
    question = scope.what(f"the {end} port of an enabled service among the {which}")
    function = "max" if end == "highest" else "min"
    solution = f"python3 - <<'END'\n{load}print({function}(s['port'] for h in live for s in h['services'] if s['enabled']))\nEND"
    wrong = max(every) if end == "highest" else min(every)
    return integer(scope, question, gold, solution, *[wrong] * (wrong != gold), gold + 1, tags=["json", "nested"])


@template("data", "hard", 2)
def edit_json(scope: Scope) -> Draft | None:
    path = f"{scope.home()}/{scope.stem()}.json"
    hosts = _inventory(scope, path)
    named = [(host["host"], service["name"]) for host in hosts for service in host["services"]]
    service = scope.pick(*[each for _, each in named])
    fits = [host["host"] for host in hosts for each in host["services"] if each["name"] == service and each["enabled"]]
    if len(fits) < 1 or len(named) < 8:
        return None
    port = scope.between(10_000, 20_000)
    wanted = json.loads(scope.tree.text(path))
    for host in wanted["hosts"]:
        for each in host["services"]:
            if each["name"] == service and each["enabled"]:
                each["port"] = port
    check = state_check(
        scope.tree, scope.tree, (path.rpartition("/")[0],), loose={path: "cm"}, more=json_check(path, wanted)
    )
    question = scope.order(
        f"In {path}, set the port of every enabled service named {service} to {port}. The file must stay valid JSON with all other values unchanged; its layout is up to you.",
        f"Change {path}: each service entry with name {service} that is enabled gets port {port}. Keep the rest of the data; white space does not matter.",
    )
    solution = (
        f"python3 - <<'END'\nimport json\nd = json.load(open('{path}'))\nfor h in d['hosts']:\n    for s in h['services']:\n        if s['name'] == '{service}' and s['enabled']:\n"
        f"            s['port'] = {port}\njson.dump(d, open('{path}', 'w'), indent=2)\nEND"
    )
    old = next(
        each["port"] for host in hosts for each in host["services"] if each["name"] == service and each["enabled"]
    )
    slips = (f"echo '{{}}' > {path}", f"sed -i 's/{old}/{port}x/' {path}", f"rm {path}")
    return change(scope, question, check, solution, *slips, tags=["json", "edit"])


@template("data", "hard", 2)
def csv_to_json(scope: Scope) -> Draft | None:
    root = scope.home()
    path, target = f"{root}/{scope.stem()}.csv", f"{root}/{scope.stem()}.json"
    rows = _orders(scope, path, scope.between(25, 60))
    status = scope.pick("paid", "open", "void")
    wanted = [
        {"id": int(row["id"]), "customer": row["customer"], "city": row["city"], "amount": int(row["amount"])}
        for row in rows
        if row["status"].lower() == status
    ]
    if len(wanted) < 4:
        return None
    after = scope.tree.after()
    after.write(target, "")
    check = state_check(scope.tree, after, (root,), loose={target: "cm"}, more=json_check(target, wanted))
    question = scope.order(
        f"Write to {target} a JSON array of the rows of {path} whose status is {status} in any case, in file order; each an object with the keys id, customer, city and amount, where id and amount are numbers.",
        f"Convert {name(path)} in {root}: {target} shall be a JSON list with one object for each row of status {status} (case does not matter), keys id (number), customer, city, amount (number), order kept.",
    )
    body = (
        f"rows = csv.DictReader(open('{path}', newline='', encoding='utf-8'))\n"
        "out = [{'id': int(r['id']), 'customer': r['customer'], 'city': r['city'], 'amount': int(r['amount'])} for r in rows if r['status'].strip()TEST]\n"
        f"json.dump(out, open('{target}', 'w'))\nEND"
    )
    start = "python3 - <<'END'\nimport csv, json\n"
    solution = start + body.replace("TEST", f".lower() == '{status}'")
    slips = (
        start + body.replace("TEST", f".upper() != '{status.upper()}'"),
        f"echo '[]' > {target}",
        f"cp {path} {target}",
    )
    return change(scope, question, check, solution, *slips, tags=["csv", "json"])


@template("data", "hard", 2, held_out=True)
def lines_of_json(scope: Scope) -> Draft | None:
    path = f"{scope.home()}/{scope.stem()}.jsonl"
    users = scope.some(PEOPLE, 12)
    lines = scope.tree.bulk(
        path, scope.seed(), scope.between(100, 220), '{{"user": "{}", "ms": {}, "ok": {}}}', users, (3, 900), ["true", "true", "false"],
    )  # fmt: skip
    records = [json.loads(line) for line in lines]
    times: dict[str, list[int]] = defaultdict(list)
    for record in records:
        if record["ok"]:
            times[record["user"]].append(record["ms"])
    slowest = {user: max(found) for user, found in times.items()}
    order = sorted(slowest, key=lambda user: slowest[user])
    if slowest[order[0]] == slowest[order[1]]:
        return None
    question = scope.ask(
        f"Each line of {path} is a JSON object. For which user is the largest ms among the records with ok true the smallest?"
    )
    solution = (
        f"python3 - <<'END'\nimport json\nm = {{}}\nfor line in open('{path}'):\n    r = json.loads(line)\n    if r['ok']:\n"
        "        m[r['user']] = max(m.get(r['user'], 0), r['ms'])\nprint(min(m, key=m.get))\nEND"
    )
    return string(scope, question, order[0], solution, order[1], order[-1], tags=["json", "group"])
