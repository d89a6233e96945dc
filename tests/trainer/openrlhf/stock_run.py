"""OpenRLHF's own synchronous trainer on a CPU: ``python stock_run.py MODEL FOLDER``.

Only the engine is ours: it carries vLLM's arguments for a CPU. The policy, the trainer and the executor are OpenRLHF's.
"""

import importlib
import json
import os
import sys
from pathlib import Path

REWARD = """
def reward_func(queries, prompts, labels):
    import torch

    shares = [sum(c.isalpha() for c in q[len(p):]) / max(1, len(q) - len(p)) for q, p in zip(queries, prompts)]
    return {"rewards": torch.tensor(shares), "scores": torch.tensor(shares), "extra_logs": {}}
"""


def main(model: str, folder: Path) -> None:
    from trainer_adapter.config import Config, ModelSection, TaskSection, TrainSection
    from trainer_adapter.openrlhf import compat, cpu, launch, settings

    config = Config(
        model=ModelSection(path=model), tasks=(TaskSection(environment="none"),), train=TrainSection(device="cpu")
    )
    run = settings.Settings(config=config, sources=())
    os.environ.update(cpu.ENVIRONMENT)
    os.environ[settings.VARIABLE] = settings.dumps(run)
    cpu.setup()
    compat.check()
    import ray

    ray.init(**launch._ray_options(run))
    from trainer_adapter.openrlhf.engine import EngineActor

    importlib.import_module("openrlhf.trainer.ray.vllm_engine").RolloutRayActor = EngineActor
    (folder / "reward.py").write_text(REWARD)
    prompts = folder / "prompts.jsonl"
    prompts.write_text("\n".join(json.dumps({"prompt": f"Say something about {n}."}) for n in range(8)))
    launch._run_cli(
        [
            "--actor.model_name_or_path", model, "--actor.num_nodes", "1", "--actor.num_gpus_per_node", "1",
            "--vllm.num_engines", "1", "--vllm.tensor_parallel_size", "1", "--reward.remote_url", str(folder / "reward.py"),
            "--data.prompt_dataset", str(prompts), "--data.input_key", "prompt", "--data.max_len", "128",
            "--rollout.batch_size", "4", "--rollout.n_samples_per_prompt", "4", "--rollout.micro_batch_size", "4",
            "--rollout.max_new_tokens", "16", "--train.batch_size", "16", "--train.micro_batch_size", "4",
            "--algo.advantage.estimator", "group_norm", "--algo.kl.init_coef", "0", "--ds.zero_stage", "2",
            "--algo.advantage.is_correction_level", "token", "--actor.adam.lr", "1e-3", "--ckpt.output_dir", str(folder / "out"),
            *cpu.FLAGS,
        ]
    )  # fmt: skip
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
