"""Writes the rights of each role into docs/kafka-security.md: `python -m headrace.docs_rights`."""

from pathlib import Path

from producer_sdk.rights import Role, commands, rights_of

RIGHTS_PAGE = Path(__file__).resolve().parents[1] / "docs" / "kafka-security.md"
BEGIN, END = "<!-- rights: python -m headrace.docs_rights -->", "<!-- end of rights -->"
TITLES = {
    Role.PRODUCER: "A program with the SDK: `infer`, `publish`, `map`, `cancel`",
    Role.WORKER: "`headrace worker`, its topics made beforehand",
    Role.GATEWAY: "`headrace gateway`, and `headrace infer`, `publish`, `cancel` and `models list`",
    Role.TOPICS: "`headrace topics`, and besides its own rights a worker that makes its topics",
    Role.DEAD: "`headrace dead`",
    Role.VERIFY: "`headrace verify`, `replies` and `simulate`",
}


def rights_part() -> str:
    """One block of commands a role, for the model `resnet50` under the prefix `headrace`."""
    parts = []
    for role, title in TITLES.items():
        granted = commands(rights_of(role, "headrace", ["resnet50"]), f"User:{role}", "kafka:9093")
        lines = [line.replace(" --bootstrap-server kafka:9093 --add", " $ADMIN --add") for line in granted]
        parts.append(f"### {title}\n\n" + "".join(f"    {line}\n" for line in lines))
    return "\n".join(parts)


def with_rights(page: str) -> str:
    """The page with its part between the two marks written anew."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{rights_part()}\n{END}{tail}"


if __name__ == "__main__":
    RIGHTS_PAGE.write_text(with_rights(RIGHTS_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
