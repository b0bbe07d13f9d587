# 知答 / Zhida. `make` lists the targets.
.DEFAULT_GOAL := help
.PHONY: help install run bench plan serve test check doctor lock
MAKEFLAGS += --no-print-directory

# Assigned, not "?=": conda and some shells export HOST. The command line still wins.
HOST := 127.0.0.1
PORT := 8000
REMOTE :=
KIND :=
ARGS :=

# The first Python that runs, is 3.11-3.13 and can make environments (pyenv's shims exist and fail; Debian splits venv off).
IS_RIGHT := import sys, venv, ensurepip, ctypes; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
FIND_PYTHON = python=; for p in python3.12 python3.13 python3.11 python3; do \
	  if "$$p" -c '$(IS_RIGHT)' >/dev/null 2>&1; then python=$$p; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo '✗ 找不到可用的 Python 3.11–3.13（须带 venv）。Debian/Ubuntu：apt install python3 python3-venv' >&2; \
	  echo '  No usable Python 3.11-3.13 with venv. On Debian/Ubuntu: apt install python3 python3-venv' >&2; \
	  exit 1; \
	fi

# Chainlit's command line also reads these environment variables (CI: a fake API key; DEBUG=release: refuses to start).
CHAINLIT := env -u CI -u DEBUG -u HEADLESS -u NO_CACHE -u WATCH .venv/bin/python -m chainlit

help: ## 列出命令
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

INSTALL = $(FIND_PYTHON); exec "$$python" install.py --remote '$(REMOTE)' --kind '$(KIND)'
# The doctor and the plan are most needed where the installation refuses: they run with what is there.
TRY_INSTALL = ( $(INSTALL) ) || .venv/bin/python -c 'import engine.doctor, engine.plan' 2>/dev/null

install: ## 建 .venv 并安装（REMOTE=1：只装界面，引擎在别处；KIND=cpu：只用 CPU；KIND=auto：改回）
	@$(INSTALL)

run: install ## 启动：http://localhost:8000（HOST=0.0.0.0 PORT=8000 向局域网开放）
	@exec $(CHAINLIT) run app.py --headless --host '$(HOST)' --port '$(PORT)'

bench: install ## 压测（ARGS='tables'、'engine'、'app'、'crosscheck'，见 bench/README.md）
	@exec .venv/bin/python -m bench $(ARGS)

plan: ## 预估：这台机器和各种显卡能承载多少（不加载模型）
	@$(TRY_INSTALL)
	@exec .venv/bin/python -m engine.plan $(ARGS)

serve: install ## 启动自己的 vLLM 服务（端口 8001）
	@exec .venv/bin/python -m engine.serve $(ARGS)

test: ## 安装测试工具并运行全部测试（ARGS='-k 名字' 只跑一部分）
	@$(FIND_PYTHON); "$$python" install.py --remote '$(REMOTE)' --kind '$(KIND)' --dev
	@exec .venv/bin/python -m pytest $(ARGS)

check: ## 静态检查：ruff 与 mypy
	@$(FIND_PYTHON); "$$python" install.py --remote '$(REMOTE)' --kind '$(KIND)' --dev
	@.venv/bin/python -m ruff check .
	@.venv/bin/python -m ruff format --check .
	@.venv/bin/python -m mypy .

doctor: ## 检查这台机器：有什么，会运行什么，问题怎么解决
	@$(TRY_INSTALL)
	@exec .venv/bin/python -m engine.doctor

# One chain of constraints, so that the locks agree: GPU -> remote -> CPU -> dev, and remote -> CUDA 12, but for numpy,
# which vLLM 0.19 holds lower. The V100 server's lock stands alone: it is installed apart from the app.
# torch+cpu comes from PyTorch's index, or from UV_FIND_LINKS where that is set.
# The CPU lock leaves out what the index has for CUDA only and text models do not need.
UV = .venv-lock/bin/uv pip compile --quiet --universal --no-annotate --custom-compile-command 'make lock' $(ARGS)
# What pyproject.toml's `environments` writes behind every package of a GPU lock.
TRIM = sed -i -e "s/ and implementation_name == 'cpython'//; s/ and platform_python_implementation == 'CPython'//g" \
	-e "s/ and sys_platform == 'linux'//g; s/ ; python_full_version < '3.14'$$//"
lock: ## 由 requirements*.in 重新生成锁文件（ARGS=--upgrade 升级）
	@$(FIND_PYTHON); [ -x .venv-lock/bin/uv ] || { "$$python" -m venv --clear .venv-lock && .venv-lock/bin/python -m pip install --quiet uv==0.13.9; }
	$(UV) --python-version 3.11 requirements.in -o requirements.txt
	$(UV) --python-version 3.11 --no-config requirements-remote.in -c requirements.txt -o requirements-remote.txt
	grep -v '^numpy==' requirements-remote.txt | \
	  $(UV) --python-version 3.11 requirements-cuda12.in -c /dev/stdin -o requirements-cuda12.txt
	$(UV) --python-version 3.10 requirements-v100.in -o requirements-v100.txt
	$(TRIM) requirements.txt requirements-cuda12.txt requirements-v100.txt
	$(UV) --python-version 3.11 --no-config requirements-cpu.in -c requirements-remote.txt -o requirements-cpu.txt \
	  $(if $(UV_FIND_LINKS),,--torch-backend cpu) \
	  --no-emit-package torchvision --no-emit-package torchaudio --no-emit-package torchcodec --no-emit-package triton
	$(UV) --python-version 3.11 --no-config requirements-dev.in -c requirements-cpu.txt -o requirements-dev.txt
