"""Every mistake gives one line and exit code 2 and writes nothing; configurations are checked without torch."""

import gzip
from pathlib import Path

import pytest

from tests.runs.conftest import run_info, write_plug_in

# Command lines, and phrases of their messages.
CONFIGURATIONS = {
    "scorer=aditive": ["unknown scorer 'aditive'", "did you mean additive?"],
    "scorer=mine": ["unknown scorer 'mine'", "plug-ins were searched in plugins/, and $ATTNX_PLUGINS is not set"],
    "scorer=general": ["unknown scorer 'general'; did you mean multiplicative?"],
    "task=poetry": ["unknown task 'poetry'", "g2p"],
    "recipe=vaswani": ["unknown recipe 'vaswani'", "bahdanau"],
    "experiment=none": ["unknown experiment 'none'", "g2p_full"],
    "query=[token,tokn]": ["unknown query 'tokn'", "token"],
    "scop=local": ["unknown key 'scop'", "scope"],
    "scorer@model.scorer=dot": ["the model 'seq2seq' has no option 'scorer'"],
    "scorer.hiden=64": ["no option 'hiden'", "hidden"],
    "optimizer.learning_rate=0.1": ["the optimizer 'adam' has no option 'learning_rate'; did you mean lr?"],
    "scorer=mlp scorer.layers=3": [
        "the scorer 'mlp' has no option 'layers'; choose from activation, depth, hidden_sizes"
    ],
    "scorer=dot scorer.foo=3": ["the scorer 'dot' has no option 'foo'; it has none"],
    "+scorer.hiden=64": ["'additive' has no option 'hiden'", "hidden"],
    "scorer=dot scorer.hidden_size=64": ["no option 'hidden_size'", "scorer=additive"],
    "scorer.hidden_size=many": ["scorer.hidden_size=many", "whole number"],
    "decoding.max_length_ratio=1e8": ["decoding.max_length_ratio=100000000.0", "above 0, up to 1,024"],
    "decoding.max_length_extra=9000000000": ["decoding.max_length_extra=9000000000", "from 0 to 65,536"],
    "decoding.min_length=9000000000": ["decoding.min_length=9000000000", "from 0 to 65,536"],
    "attention.hops=9223372036854775807": ["attention.hops=9223372036854775807", "from 1 to 1,024"],
    "model.embedding_dim=2147483648": ["model.embedding_dim=2147483648", "from 1 to 65,536"],
    "scorer.hidden_size=0": ["scorer.hidden_size=0", "from 1 to 65,536"],
    "seed=-1": ["seed=-1", "0 or more"],
    "seed=4294967296": ["seed=4294967296", "up to 4294967295"],
    "optimizer.lr=nan": ["optimizer.lr", "above 0"],
    "model.feed=later": ["model.feed=later", "now", "next", "none"],
    "scope=local scope.window=-1": ["scope.window=-1", "0 or more"],
    "readout.inputs=[]": ["readout.inputs", "not empty"],
    "readout.inputs=[state,context,state]": ["readout.inputs=[state,context,state]", "once"],
    "query=[]": ["query is empty", "token"],
    "query={token:1}": ["query={token:1}"],
    "scorer=[dot,scaled]": ["scorer=[dot,scaled]", "one name"],
    "scorer=dot,scaled": ["scorer=dot,scaled", "-m"],
    "scorer=glob(*)": ["scorer=glob(*)", "-m"],
    "scorer=": ["scorer=", "additive"],
    "scorer=null": ["scorer=null", "one name", "additive"],
    "scorer=dot scorer=scaled": ["scorer is set twice", "scorer=dot", "scorer=scaled"],
    "~scorer": ["no scorer is chosen"],
    "name=${oc.env:HOME}": ["name=${oc.env:HOME}: a value of the environment", "give the value itself"],
    "-m name=${oc.env:HOME} seed=1,2": ["name=${oc.env:HOME}: a value of the environment"],
    "name=true": ["name=true: expected a word or null"],
    "scorer='dot": ["cannot read"],
    "check scope=local scope.windw=2": ["the scope 'local' has no option 'windw'; did you mean window"],
    "check scope=local scope.window=wide": ["scope.window=wide: expected a whole number"],
    "task.train=a=b seed=2": ["cannot read task.train=a=b", "quote", """'task.train="a=b"'"""],
    "-m scorer=dot,scaled task.train=a=b": ["cannot read task.train=a=b"],
    "-m scorer=dot,scaled folder=here": ["folder=here", "name the sweep by name="],
    "name=": ["name=: is empty", "unset variable"],
    "name=5": ["name=5 is a number; quote it to use it as a name: 'name=\"5\"'"],
    "folder=5": ["folder=5 is a number; quote it to use it as a folder"],
    "name=..": ["name=..: begins with a dot"],
    "name=a/b": ["name=a/b: contains a path separator"],
    "name=runs": ["name=runs: multirun/runs is the folder of single runs"],
    "-m seed=1 task.train=nowhere.tsv": ["attnx: task.train: nowhere.tsv: no such file"],
    "-m seed=1 name=": ["name=: is empty"],
    "-m seed=1 name= fresh=true": ["name=: is empty"],
    "-m seed=1 name=.": ["name=.: begins with a dot"],
    "-m seed=1 name=../../evil": ["name=../../evil: contains a path separator"],
    r"""-m seed=1 'name="a\b"'""": ["contains a path separator"],
    """-m seed=1 'name="a\tb"'""": ["name='a\\tb'", "cannot be printed"],
    """-m seed=1 'name="a\nb"'""": ["name='a\\nb'", "cannot be printed"],
    "-m seed=1 name=Runs": ["name=Runs: multirun/runs is the folder of single runs"],
    f"-m seed=1 name={'x' * 129}": ["is longer than 128 bytes"],
    "-m seed=1 name=one,two": ["name=one, two: a sweep has one name"],
    "-m seed=1 hydra.sweep.dir=here": ["hydra.sweep.dir=here: a sweep lies in multirun/NAME", "write name=NAME"],
    "-m seed=1 ++hydra.sweep.subdir=here": ["hydra.sweep.subdir=here", "write name=NAME"],
    "-m seed=1 hydra.sweep={dir:here}": ["hydra.sweep={dir:here}", "write name=NAME"],
    "-m seed=1 ~hydra.sweep.dir": ["~hydra.sweep.dir", "write name=NAME"],
    "hydra.sweep.dir=here": ["hydra.sweep.dir=here", "write name=NAME"],
    "normalizer=monotonic scope=history": ["normalizer=monotonic", "scope.sources=[decoder] holds decoder states"],
    "normalizer=monotonic model=history task=forecasting": ["scope.sources=[decoder] holds decoder states"],
    "normalizer=monotonic recipe=entnet": ["normalizer=monotonic", "but slots have no order"],
    "normalizer=monotonic recipe=pointer task=pointing": [
        "normalizer=monotonic",
        "a pointer's weights are probabilities",
    ],
    "normalizer=monotonic model=transformer": ["normalizer=monotonic", "a transformer computes all steps at once"],
    "model=transformer model.cross_normalizer=monotonic": ["model.cross_normalizer=monotonic", "a transformer"],
    "task.train=words.tsv task.valid=words.tsv task.test=words.tsv task.holdout=0.1": [
        "task.holdout=0.1 has no effect beside task.valid=words.tsv and task.test=words.tsv; leave it out, or set "
        "task.valid=null or set task.test=null"
    ],
    "accel=off attention.chunk_mib=32": ["attention.chunk_mib=32 has no effect beside accel=off; leave it out"],
    "encoder.dropout=0.2": ["encoder.dropout=0.2 has no effect beside encoder.layers=1"],
    "decoding=beam decoding.length_penalty_alpha=0.3": [
        "decoding.length_penalty_alpha=0.3",
        "decoding.length_penalty=gnmt",
    ],
    "model.tag_dim=50": ["model.tag_dim=50", "model.tag_inputs"],
    "model.position_dim=16": ["model.position_dim=16", "one_hot or sinusoidal"],
    "attention=none model.keys_from=inputs": [
        "model.keys_from=inputs has no effect beside attention=none",
        "leave it out",
    ],
    "scorer=gmm model.keys_from=one_hot": ["model.keys_from=one_hot has no effect", "scorer=gmm"],
    "scorer=gmm model.keys_from=inputs": [
        "scorer=gmm, which does not read the keys",
        "set model.values_from",
    ],
    "attention.heads=2 attention.projection=never": ["attention.projection=never has no effect"],
    "encoder.dropout=0.2 model.keys_from=layer:0 encoder.layers=2": ["encoder.dropout=0.2", "read 1 of its layers"],
    "model.keys_from=layer:0 encoder.layers=2": ["encoder.layers=2 has no effect", "set encoder.layers=1"],
    "model.keys_from=inputs encoder.cell=gru": ["encoder.cell=gru has no effect beside model.keys_from=inputs"],
    "scope=history encoder.layers=3": ["encoder.layers=3 has no effect beside scope.sources=[decoder]"],
    "scope=history model.bridge=learned encoder=pyramid": ["encoder=pyramid has no effect"],
    "task=forecasting task.file=words.tsv model.scheduled_sampling=0.5": [
        "model.scheduled_sampling=0.5 has no effect beside task.forecast=direct; leave it out"
    ],
    "model=transformer scorer=additive model.self_scorer=dot model.cross_scorer=mlp": [
        "scorer=additive has no effect beside model.self_scorer=dot and model.cross_scorer=mlp; leave it out"
    ],
    "model=transformer model.form=decoder_only scope=local model.self_scope=history": ["scope=local has no effect"],
    "model=transformer scorer=scaled model.rotary_base=500": [
        "model.rotary_base=500 has no effect beside model.position_encoding=sinusoidal; leave it out, or set "
        "model.position_encoding=rotary"
    ],
    "recipe=llama model.prefix=causal": ["model.prefix=causal has no effect beside scope=history; leave it out"],
    "task=language_model model=transformer model.form=decoder_only scorer=scaled model.prefix=causal": [
        "model.prefix=causal has no effect beside task=language_model, which has no source; leave it out"
    ],
    "model=transformer attention.bias=alibi model.self_bias=relative model.cross_bias=alibi": ["attention.bias=alibi"],
    "model=transformer model.form=decoder_only model.cross_scorer=dot": ["set model.form=encoder_decoder"],
    "trainer.batch_size=32 trainer.batch_tokens=1000": [
        "trainer.batch_size=32 has no effect beside trainer.batch_tokens=1000; leave it out, or set "
        "trainer.batch_tokens=null"
    ],
    "trainer.max_steps=5 trainer.max_steps=7": ["trainer.max_steps is set twice, by trainer.max_steps=5 and"],
    "-m seed=1,2 hydra.launcher.cluster=slurm hydra.launcher.cluster=null": ["cluster is set twice"],
    "-m seed=1,2 -j 2 --jobs=3": ["--jobs is given twice"],
    "trainer.patience=5": ["trainer.patience=5 has no effect beside trainer.num_validations=6", "=7 or more"],
    "trainer.precision=tf32 trainer.accelerator=cpu": ["trainer.precision=tf32 has no effect"],
    "task=forecasting task.file=words.tsv decoding.max_length_extra=3": ["has no effect beside task=forecasting"],
    "model=classifier task=classification decoding.length_penalty=gnmt decoding=beam": ["beside model=classifier"],
    "task.columns=[1,2]": ["task.columns=[1,2] has no effect beside task.train=null", "set task.train"],
    "model=pointer task=pointing task.problem=sorting task.max_exact_points=9": ["set task.problem=tsp"],
    "model=transformer model.max_positions=7": ["model.max_positions=7", "set model.position_encoding=learned"],
    "experiment=electricity_96 task.lokback=8": ["the task 'forecasting' has no option 'lokback'", "mean lookback?"],
    "recipe=transformer model.foot=8": ["the model 'transformer' has no option 'foot'; choose from activation, "],
    "placement.attention=cuda:1 attention=none": ["placement.attention=cuda:1 has no effect beside attention=none"],
    "task=probe scope=history task.pairs=17": ["task.pairs=17 and task.length=64: 17 pairs", "a length of 68 or more"],
    "task=probe scope=history task.vocabulary=64": ["task.vocabulary=64 must be even and more than the length 64"],
    "task=probe scope=history task.test=64x": ["task.test=64x: expected a length up to 999,999"],
    "task=probe model=transformer": ["task=probe has no source", "use model.form=decoder_only"],
    "task=probe scope=history task.problem=recall task.noise=0.3": ["or set task.problem=noisy_recall"],
    "task=probe scope=history task.problem=modular_counting task.length=4": ["need an odd number of steps"],
    "task=probe scope=history task.problem=copying task.length=9": ["task.tokens=10 need a length of 21 or more"],
    "task=probe scope=history task.filler_symbols=5": ["set task.fillers=own"],
    "recipe=pointer task=pointing scorer=dynamic_convolution": ["scorer=dynamic_convolution does not read what it"],
    "task.train=": ["task.train= is empty, perhaps from an unset variable"],
    "folder=": ["folder= is empty, perhaps from an unset variable"],
    "''": ["an argument of attnx is empty, perhaps from an unset variable"],
    f"optimizer.lr={'1' * 400}": ["expected a number above 0"],
    f"trainer.max_steps={'1' * 400}": ["expected a whole number, 1 or more"],
    "additive": [
        "unknown command 'additive'; did you mean scorer=additive?; attnx trains without a command, by key=value\n"
    ],
    "bahdanau": [
        "unknown command 'bahdanau'; did you mean recipe=bahdanau?; attnx trains without a command, by key=value\n"
    ],
    "--scorer dot": ["unknown flag --scorer; did you mean scorer=VALUE?\n"],
    "--scorer=dot": ["unknown flag --scorer; did you mean scorer=dot?\n"],
    "--lr 0.1": ["unknown flag --lr; did you mean optimizer.lr=VALUE?\n"],
    "--multirn scorer=dot": ["unknown flag --multirn; did you mean --multirun?\n"],
    "scorer= dot": ["unknown command 'dot'; did you mean scorer=dot?; attnx trains without a command, by key=value\n"],
    "scorer": ["unknown command 'scorer'; did you mean scorer=VALUE?; attnx trains without a command, by key=value\n"],
    "evalute one": ["unknown command 'evalute'; did you mean evaluate?"],
    "..": ["unknown command '..'", "attnx trains without a command, by key=value\n"],
    "-v -m scorer=dot,mlp": ["--multirun and --verbose cannot go together", "leave one out\n"],
    "'scorer=dot scope=local'": ["cannot read scorer=dot scope=local: write key=value"],
    "scorer==dot": ["cannot read scorer==dot: write key=value"],
    "-h scorer": ["no command 'scorer'", "write attnx list scorer\n"],
    "help lst": ["no command 'lst'", "did you mean list?"],
    "lr=0.1": ["unknown key 'lr'", "did you mean optimizer.lr?"],
    "+epochs=3": ["unknown key 'epochs'", "did you mean trainer.max_epochs?"],
    "hydra.run.dir=here": ["hydra.run.dir=here", "folder=FOLDER"],
    "--cfg job hydra.run.dir=here": ["hydra.run.dir=here", "folder=FOLDER"],
    "-m scorer=dot,scaled hydra.run.dir=here": ["hydra.run.dir=here", "folder=FOLDER"],
    "query=[1]": ["query=[1]: expected names; choose from current_state"],
    "query=[token,[last_context]]": ["query=[token,[last_context]]: expected names; choose from current_state"],
    "'model.keys_from=\"layer:²\"' encoder.layers=3": ["model.keys_from=layer:²: expected states"],
    "-m 'hydra.sweeper.params={seed: \"1,2\"}'": ["hydra.sweeper.params is not set; +hydra.sweeper.params.KEY=VALUES"],
    "-m hydra/sweeper=search hydra.sweeper.sampler=Random 'optimizer.lr=interval(0.1,1)'": [
        "hydra.sweeper.sampler.name=Random: Optuna has no such sampler; did you mean RandomSampler"
    ],
    "-m hydra/sweeper=search '~hydra.sweeper.pruner' 'optimizer.lr=interval(0.1,1)' task.train=not.tsv": ["not.tsv"],
    "-m '+hydra.sweeper.params.seed=\"1,2,3\"' task.train=not.tsv": ["not.tsv: no such file"],
    "hydra/launcher=slurm": ["hydra/launcher=slurm has no effect on a single run", "-m"],
    "list scorers": ["no part or kind 'scorers'", "did you mean scorer"],
    "list mine": ["no part or kind 'mine'", "plug-ins were searched in plugins/"],
    "list scope=dot": ["no scope 'dot'", "local"],
    "list scop=local": ["no kind 'scop'", "did you mean scope"],
    "=dot": ["'=dot'", "key=value"],
    "resum folder": ["unknown command 'resum'; did you mean resume?"],
    "--config-name other": ["unknown flag --config-name; did you mean --config-dir?\n"],
    "--cfg yaml": ["--cfg yaml", "job"],
    "--cfg": ["--cfg needs a value"],
    "--config-dir nowhere": ["nowhere", "no such folder"],
    "--cfg job -p scoper": ["-p scoper: the configuration has no 'scoper' there; did you mean", "scorer"],
    "--cfg job -p scorer.hidden": ["no 'hidden' there; did you mean hidden_size?"],
    "--cfg job -m scorer=dot,scaled": ["--cfg", "--multirun"],
    "--multirun=yes": ["--multirun takes no value"],
    "attention.heads=2 scope=local scope.window=5 attention.head_scopes=[local,global]": [
        "scope=local has no effect beside attention.head_scopes=[local,global]"
    ],
    "attention=none scorer=dot": ["scorer=dot", "attention=none"],
    "attention=none scorer.hidden_size=64": ["scorer.hidden_size=64", "attention=none"],
    "+attention=none '+query=[token]'": ["query=[token]", "attention=none"],
    "model.feed=now": ["model.feed=now", "current_state"],
    "model.schedule=attend_then_run": ["attend_then_run", "not possible"],
    "model.keys_from=layer:9": ["model.keys_from=layer:9", "1 layer"],
    "model.keys_from=inputs model.bridge=last": ["model.bridge=last", "model.keys_from=inputs"],
    "model.tie_embeddings=true readout.hidden_size=3": ["model.tie_embeddings=true", "readout.hidden_size=3"],
    "trainer.max_time=00:01:00 trainer.max_steps=5": ["trainer.max_time=00:01:00 has no effect", "max_steps=null"],
    "trainer.max_time=4": ["trainer.max_time=4", "HH:MM:SS"],
    "trainer.max_time=00:00:00": ["trainer.max_time=00:00:00", "above zero"],
    "trainer.max_time=null": ["trainer.max_steps", "trainer.max_time"],
    "budget=time trainer.max_steps=7": ["budget=time", "trainer.max_steps=7", "trainer.max_steps=null"],
    "-m budget=time trainer.max_epochs=2 seed=1,2": ["budget=time", "trainer.max_epochs=2", "trainer.max_time"],
    "budget=epochs": ["budget=epochs", "steps", "time"],
    "budget=flops trainer.max_steps=7": ["budget=flops", "one run", "-m"],
    "-m budget=flops seed=1,2": ["budget=flops", "set trainer.max_steps"],
    "-m budget=flops trainer.max_steps=7,8": ["trainer.max_steps=7,8", "budget=flops solves it", "leave one"],
    "match=parameters": ["match=parameters", "one run", "-m"],
    "-m match=width seed=1,2": ["match=width", "parameters", "flops", "state"],
    "-m match=parameters,flops": ["match=parameters,flops", "one match"],
    "-m match=flops decoder.hidden_size=7,11": ["decoder.hidden_size=7,11", "match=flops solves it", "leave one"],
    "-m match=state hydra/sweeper=search 'optimizer.lr=interval(1e-4,1e-2)'": ["match=state", "a search", "leave"],
    "-m scorer=dot,aditive": ["unknown scorer 'aditive'", "additive"],
    "-m scorer=choice(dot,aditive) seed=range(1,3)": ["unknown scorer 'aditive'"],
    "-m scorer=additive,dot scorer.hidden_size=64": ["no option 'hidden_size'"],
    "-m scorer=glob(zzz*)": ["scorer=glob(zzz*)", "no job"],
    "-m scorer=[": ["scorer=["],
    "task@x=1": ["task@x=1: expected the name of a part"],
    f"seed={'9' * 5000}": ["seed: a number is too long"],
    f"trainer.max_time={'9' * 5000}:00:00": ["expected a time above zero"],
    f"runs limit={'9' * 5000}": ["expected a whole number"],
    f"-m seed=1,{'9' * 5000}": ["seed: a number is too long"],
    f"predict one decoding.beam_size={'9' * 5000}": ["decoding.beam_size: a number is too long"],
    "-sc foo": ["--shell-completion foo: expected install=bash"],
    "-sc install=foo": ["--shell-completion install=foo: expected install=bash"],
    f"folder={'a' * 300}": ["the name of a file is too long"],
    f"runs {'a' * 300}": ["the name of a file is too long"],
    f"compare {'a' * 300} two": ["the name of a file is too long"],
    "folder=$NOT_SET/one": ["folder=$NOT_SET/one: the environment variable NOT_SET is not set"],
    "recipe=../recipe/bahdanau": ["recipe=../recipe/bahdanau: expected a plain name", "bahdanau"],
    "query=[token,token]": ["query=[token,token]: name each query once"],
    "query=[language_tag] query.language_tag.embedding_dim=x": ["query.language_tag.embedding_dim=x: expected"],
    "+logger=wandbb": ["unknown logger 'wandbb'; did you mean wandb"],
    "logger=wandb logger.project=mine": ["write logger.wandb.project"],
    "logger.wandb.project=mine": ["not part of this logger; add it with +logger="],
    "logger=wandb logger.wandb.projct=mine": ["the logger 'wandb' has no option 'projct'"],
    "logger=wandb logger.wandb.timeout=0": ["attnx: logger.wandb.timeout=0: expected a number above 0"],
    "logger=wandb logger.wandb=false": ["to leave it out, list the others: logger=[]\n"],
    "logger=[wandb,tensorboard] logger.tensorboard=false": ["list the others: logger=[wandb]\n"],
    "logger=[wandb,wandb]": ["name each logger once"],
    "query=[token] query.token=5": ["query.token=5: expected the options of a query"],
    "placement.foo=cpu": ["placement.foo: no such part", "attention, decoder, encoder"],
    "list nothing_of_this_name": ["nothing_of_this_name"],
    "resume": ["attnx resume FOLDER"],
    "resume .": ["not a run folder", "run.json"],
    "predict": ["attnx predict RUN [FILE]"],
    "compare one": ["attnx compare FOLDER FOLDER"],
    "compare one two": ["one: not a folder"],
    "check": ["attnx check needs NAME"],
    "check sofmax": ["no part 'sofmax'; did you mean softmax?; plug-ins were searched in plugins/, and $ATTNX_PLUGINS"],
    "check zzz": ["no part 'zzz'; attnx list shows all parts; plug-ins were searched in plugins/"],
    "check scorer=softmax": ["no scorer 'softmax'"],
    "check scorr=dot": ["there is no kind 'scorr'; did you mean scorer"],
    "check history": ["write attnx check scope=history or attnx check model=history"],
    "check adam": ["'adam' is of the kind optimizer, which has no laws; attnx check tests scorer, scope, "],
    "check lr_schedule=cosine": ["'cosine' is of the kind lr_schedule, which has no laws"],
    "check dot scaled": ["tests one part"],
    "-j 2 scorer=dot": ["add -m"],
    "-m -j 0 scorer=dot,scaled": ["--jobs 0: expected a whole number"],
    "-m -j two scorer=dot,scaled": ["--jobs two"],
    "-m scorer=dot,scaled -j": ["needs a value"],
    "resume nowhere -j 2": ["single run"],
    "-m model.dropout=0,0.0": ["model.dropout=0 and model.dropout=0.0 are the same setting; leave one out"],
    "-m seed=1,1": ["seed=1: two jobs are the same; leave one out"],
    "-m hydra/launcher=basic seed=1,2": ["hydra/launcher=basic: attnx has processes and slurm; use one of them"],
    "-m hydra/launcher=slurm -j 2 seed=1,2": ["at once; set hydra.launcher.array_parallelism"],
    "-m hydra/launcher=slurmm seed=1,2": ["unknown hydra/launcher 'slurmm'; did you mean slurm?"],
    "-m hydra/launcher=slurm hydra.launcher.partitoin=gpu seed=1,2": [
        "hydra/launcher has no option 'partitoin'; did you mean partition?"
    ],
    "-m hydra/launcher=slurm hydra.launcher.nodes=two seed=1,2": ["hydra.launcher.nodes=two: expected"],
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory, run_lines):
    return run_lines(CONFIGURATIONS, tmp_path_factory.mktemp("asked"))


@pytest.mark.parametrize("line", CONFIGURATIONS)
def test_a_mistaken_configuration_is_refused_in_one_line(line, answers, assert_one_line):
    assert_one_line(answers[line], CONFIGURATIONS[line])


@pytest.fixture
def refuse_run(refuse, words, sized):
    """Start a small run that must be refused; return the line."""
    return lambda *overrides: refuse(*sized(*overrides))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ab\tAA B\nde\tD EH\nkab K AA B\n", "data.tsv:3: no tab"),
        ("", "data.tsv: holds no pairs"),
        ("ab\tAA B\n", "split holds no pairs"),
        ("".join(f"{first}{second}\tB <eos>\n" for first in "abdeks" for second in "abdeks"), "the symbol '<eos>'"),
    ],
)
def test_malformed_data_are_reported_with_file_and_line(text, message, refuse_run):
    Path("data.tsv").write_text(text, encoding="utf-8")
    assert message in refuse_run("task.train=data.tsv")
    assert "task.train" in refuse_run("task.train=null", "task.valid=words.tsv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a 1 2 3 4 5\nb 1 2 3\n", ":2: 3 numbers, but model.embedding_dim=5"),
        (b"a 1 2 3 4 5 6 7\n", ":1: 7 numbers, but model.embedding_dim=5"),
        (b"a 1 2 3 4 5\nb 1 2 three 4 5\n", ":2: not a number"),
        (b"a 1 2 3 4 5\nb 1 2 nan 4 5\n", ":2: a vector must hold finite numbers"),
        (b"q 1 2 3 4 5\n", ": holds no vector for any"),
        (gzip.compress(b"a 1 2 3 4 5\n" * 99, mtime=0)[:-9], ": is a broken gzip file: Compressed file ended"),
    ],
)
def test_malformed_vectors_are_reported_with_file_and_line(content, message, refuse_run):
    name = "vectors.gz" if b"\0" in content else "vectors.txt"
    Path(name).write_bytes(content)
    assert f"{name}{message}" in refuse_run(f"model.source_vectors={name}")
    assert "nowhere.txt" in refuse_run("model.target_vectors=nowhere.txt")


def test_an_existing_folder_is_unchanged(refuse_run, work_folder):
    (work_folder / "full").mkdir()
    (work_folder / "full" / "letter").write_text("mine", encoding="utf-8")
    assert refuse_run("folder=full").rstrip().endswith("folder=full: it is not empty; choose another")
    (work_folder / "a run").mkdir()
    (work_folder / "a run" / "run.json").touch()
    assert "choose another, or `attnx resume 'a run'`" in refuse_run("folder='a run'")
    assert "words.tsv" in refuse_run("folder=words.tsv")
    assert (work_folder / "full" / "letter").read_text(encoding="utf-8") == "mine"


def test_an_existing_name_is_refused(refuse_run, work_folder):
    existing = work_folder / "multirun" / "runs" / "mine"
    existing.mkdir(parents=True)
    (existing / "letter").touch()
    assert "name=mine: multirun/runs/mine is not empty; choose another" in refuse_run("name=mine")
    (work_folder / "away").mkdir()
    (existing.parent / "link").symlink_to(work_folder / "away")
    assert "multirun/runs/link: is a link to" in refuse_run("name=link")


def test_an_impossible_folder_is_reported(refuse_run):
    assert "cannot write the run folder" in refuse_run("folder=words.tsv/run")
    assert "folder=words.tsv: words.tsv is a file; choose another" in refuse_run("folder=words.tsv")


def test_a_missing_gpu_is_reported(refuse_run, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert "trainer.accelerator=gpu" in refuse_run("trainer.accelerator=gpu")
    message = refuse_run("trainer.precision=16-mixed", "trainer.accelerator=cpu")
    assert "trainer.precision=16-mixed is for GPUs, and the run trains on a CPU; bf16-mixed is for both" in message


def test_a_non_finite_loss_ends_the_run_with_one_line(command, words, small):
    steep = [
        "optimizer=sgd",
        "optimizer.lr=1e38",
        "trainer.gradient_clip_val=null",
        "trainer.max_steps=40",
        "folder=steep",
    ]
    answer = command(*[size for size in small if "max_steps" not in size], *steep)
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert "the loss became" in answer.err
    assert "optimizer.lr" in answer.err
    assert run_info("steep")["status"] == "failed"
    page = Path("steep/README.md").read_text(encoding="utf-8")
    assert f"## Error\n\n{answer.err.removeprefix('attnx: ')}" in page
    for message in ("status failed", "`bad_batch.pt`", "attnx resume steep"):
        assert message in page


def test_a_part_import_error_is_reported_with_file_and_line(refuse_run):
    lines = [
        "import attnx_has_no_such_module",
        "from attnx.attention.scorers.dot import Dot",
        "from attnx.registry import register",
        '@register("scorer", "lost")',
        "class Lost(Dot): ...",
    ]
    write_plug_in("lost", "\n".join(lines))
    line = refuse_run("scorer=lost")
    assert "lost.py:1" in line
    assert "attnx_has_no_such_module" in line
