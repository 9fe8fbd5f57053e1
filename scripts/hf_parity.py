"""Opens a folder with transformers as it is, or makes one. Started by scripts/hf_parity, which brings the packages."""
import argparse
import pathlib
import shutil
import sys

import numpy
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, DeepseekV3Config, LlamaConfig, MixtralConfig, Qwen3MoeConfig


def load(arguments):
    dtype = getattr(torch, arguments.dtype) if arguments.dtype else "auto"
    model = AutoModelForCausalLM.from_pretrained(arguments.folder, dtype=dtype, attn_implementation="eager")
    return model.eval()


def input_ids(arguments):
    if arguments.ids:
        text = pathlib.Path(arguments.ids).read_text() if pathlib.Path(arguments.ids).exists() else arguments.ids
        return torch.tensor([[int(i) for i in text.replace(",", " ").split()]])
    tokenizer = AutoTokenizer.from_pretrained(arguments.folder)
    text = pathlib.Path(arguments.text_file).read_text() if arguments.text_file else arguments.text
    if text is None:
        sys.exit("give --text, --text-file or --ids")
    return tokenizer(text, return_tensors="pt").input_ids


def logits(arguments):
    ids = input_ids(arguments)[:, : arguments.max_tokens]
    with torch.no_grad():
        out = load(arguments)(ids).logits[0].float()
    nll = torch.nn.functional.cross_entropy(out[:-1], ids[0, 1:]).item() if ids.shape[1] > 1 else float("nan")
    print(f"tokens {ids.shape[1]}  vocabulary {out.shape[1]}  mean NLL {nll:.6f}  sum {out.double().sum().item():.6f}")
    print("argmax", *out.argmax(-1).tolist()[-16:])
    if arguments.output:
        numpy.save(arguments.output, out.numpy())
    if arguments.compare:
        other = numpy.load(arguments.compare).reshape(-1, out.shape[1])
        if other.shape != tuple(out.shape):
            sys.exit(f"{arguments.compare} has shape {other.shape}, transformers gives {tuple(out.shape)}")
        difference = float(numpy.abs(other.astype(numpy.float64) - out.double().numpy()).max())
        good = difference <= arguments.tolerance  # false for NaN
        print(f"max |difference| {difference:.3e}, allowed {arguments.tolerance:.0e}: {'equal' if good else 'DIFFERENT'}")
        sys.exit(0 if good else 1)


def generate(arguments):
    tokenizer = AutoTokenizer.from_pretrained(arguments.folder)
    batch = tokenizer(arguments.prompt, return_tensors="pt", return_token_type_ids=False)
    ids = load(arguments).generate(**batch, do_sample=False, max_new_tokens=arguments.max_tokens,
                                   pad_token_id=tokenizer.pad_token_id or tokenizer.eos_token_id or 0)[0]
    if arguments.ids:
        print(*ids.tolist())
        return
    ids = ids[batch.input_ids.shape[1] :] if arguments.continuation else ids
    print(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def yarn(arguments):
    return {"rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 0.7, "mscale_all_dim": 1.0,
            "original_max_position_embeddings": arguments.max_positions // 8}


def config_to_make(arguments):
    common = dict(
        hidden_size=arguments.dim, num_hidden_layers=arguments.layers, num_attention_heads=arguments.heads, vocab_size=arguments.vocab,
        max_position_embeddings=arguments.max_positions, tie_word_embeddings=arguments.tied, bos_token_id=None,
        eos_token_id=arguments.eos, initializer_range=arguments.std)
    rope = {"rope_parameters": {"rope_type": "default", "rope_theta": arguments.rope_theta}}
    grouped = {"num_key_value_heads": arguments.kv_heads or arguments.heads}
    if arguments.model == "llama":
        return LlamaConfig(**common, **rope, **grouped, intermediate_size=arguments.ffn, rms_norm_eps=1e-5)
    if arguments.model == "mixtral":
        return MixtralConfig(**common, **rope, **grouped, intermediate_size=arguments.ffn, num_local_experts=8, num_experts_per_tok=2)
    if arguments.model == "qwen3_moe":
        return Qwen3MoeConfig(**common, **rope, **grouped, head_dim=24, moe_intermediate_size=arguments.ffn, num_experts=16,
                              num_experts_per_tok=4, norm_topk_prob=True)
    if arguments.yarn:
        rope["rope_parameters"].update(yarn(arguments))
    return DeepseekV3Config(
        **common, **rope, num_key_value_heads=arguments.heads, intermediate_size=2 * arguments.ffn,
        moe_intermediate_size=arguments.ffn, n_routed_experts=16, n_shared_experts=2, num_experts_per_tok=4, n_group=4, topk_group=2,
        first_k_dense_replace=1, q_lora_rank=None if arguments.plain_queries else 40, kv_lora_rank=32, qk_nope_head_dim=24,
        qk_rope_head_dim=16, v_head_dim=20, num_nextn_predict_layers=0)


def byte_tokenizer():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def make(arguments):
    torch.manual_seed(arguments.seed)
    model = AutoModelForCausalLM.from_config(config_to_make(arguments), dtype=getattr(torch, arguments.dtype))
    with torch.no_grad():  # what starts at 0 or 1 would hide an error
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith("norm.weight"):
                tensor.add_(torch.randn_like(tensor), alpha=0.1)
            elif name.endswith("e_score_correction_bias"):
                tensor.normal_(std=0.1)
    model.save_pretrained(arguments.folder, max_shard_size=arguments.max_shard_size)
    if not arguments.tokenizer:
        byte_tokenizer().save(str(pathlib.Path(arguments.folder) / "tokenizer.json"))
    else:
        for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
            if (pathlib.Path(arguments.tokenizer) / name).exists():
                shutil.copy(pathlib.Path(arguments.tokenizer) / name, arguments.folder)
    print(f"{arguments.folder}: {sum(p.numel() for p in model.parameters())} parameters, {arguments.dtype}")


def main():
    parser = argparse.ArgumentParser(prog="hf_parity", description=__doc__)
    commands = parser.add_subparsers(required=True)

    p = commands.add_parser("logits", help="logits of a text, in fp32 on the CPU")
    p.set_defaults(run=logits)
    p.add_argument("folder")
    p.add_argument("--text")
    p.add_argument("--text-file")
    p.add_argument("--ids", help="token ids, or a file of them, instead of a text")
    p.add_argument("--max-tokens", type=int, default=1024)
    p.add_argument("--dtype", default="float32", help="what to compute in; empty: what the folder says")
    p.add_argument("-o", "--output", help="write them, float32 [tokens, vocabulary], as .npy")
    p.add_argument("--compare", help=".npy to compare with; exit code 1 if it differs")
    p.add_argument("--tolerance", type=float, default=1e-4)

    p = commands.add_parser("generate", help="greedy continuation")
    p.set_defaults(run=generate)
    p.add_argument("folder")
    p.add_argument("--prompt", required=True)
    p.add_argument("--max-tokens", type=int, default=32)
    p.add_argument("--dtype", default="float32")
    p.add_argument("--continuation", action="store_true", help="without the prompt")
    p.add_argument("--ids", action="store_true", help="print token ids")

    p = commands.add_parser("make", help="a small random model, written by save_pretrained")
    p.set_defaults(run=make)
    p.add_argument("folder")
    for name, value in (("dim", 64), ("layers", 2), ("heads", 4), ("kv-heads", 0), ("ffn", 192), ("vocab", 257),
                        ("max-positions", 2048), ("seed", 0)):
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--model", choices=["llama", "mixtral", "qwen3_moe", "deepseek_v3"], default="llama")
    p.add_argument("--std", type=float, default=0.02, help="of the initial weights")
    p.add_argument("--yarn", action="store_true", help="DeepSeek's RoPE scaling")
    p.add_argument("--plain-queries", action="store_true", help="DeepSeek without q_lora_rank")
    p.add_argument("--eos", type=int, default=None)
    p.add_argument("--rope-theta", type=float, default=10000.0)
    p.add_argument("--tied", action="store_true")
    p.add_argument("--dtype", default="float32")
    p.add_argument("--tokenizer", help="folder to copy the tokenizer files from; without it a token is a byte")
    p.add_argument("--max-shard-size", default="5GB", help="small sizes give several files and an index")

    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
