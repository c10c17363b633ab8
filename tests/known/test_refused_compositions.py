"""Choices that do not go together are refused in one line, which says what is wrong and what to do."""

import pytest

from attnx.config.compose import compose
from tests.refusal import refused

# By what they have in common, the words of commands and the whole message, where "..." stands for what is left out.
REFUSED = {
    "": {
        "scope=history model.bridge=zeros model.source_vectors=words.txt": "model.source_vectors=words.txt has no "
        "effect beside scope.sources=[decoder] and model.bridge=zeros; leave it out",
        "attention.head_scopes=[local,global]": "...names 2 heads, which are repeated, but attention.heads=1...",
        "attention.bias=alibbi": "unknown bias 'alibbi'; did you mean alibi...",
        "attention.bias={name:distance,bucket:8}": "the bias 'distance' has no option 'bucket'...buckets...",
        "attention.bias=3": "attention.bias=3: expected a part's name...",
        "attention.kv_heads=2 scorer=scaled": "...kv_heads=2 does not divide attention.heads=1...",
        "attention.qk_norm=rms scorer=scaled": "...one head has none; use attention.heads=2...",
        "model=classifier task=g2p": "...outputs one label, but task=g2p has longer outputs; use task=classification "
        "or listops or qa",
        "+query=self_attentive query.self_attentive.rows=2": "query.self_attentive.rows=2 has no effect beside "
        "model=seq2seq; ...classifier",
        "attention.hops=0": "attention.hops=0: expected...",
        "recipe=pointer task=g2p": "...task=g2p has answers of other symbols; use task=pointing...",
    },
    "attention.heads=2": {
        "attention.head_scopes=[local,globl]": "unknown scope 'globl'; did you mean global or local?...",
        "attention.head_scorers=[dot,coverage]": "...coverage needs earlier attention weights...",
        "attention.head_normalizers=[softmax,monotonic]": "...monotonic carries something from step to step...",
        "scorer=dot attention.head_scorers=[dot,scaled]": "scorer=dot has no effect beside...",
        "scope=local attention.head_scopes=[local,global]": "scope=local has no effect beside...",
        "scope=local scope.sources=[decoder] scope.window=5 attention.head_scopes=[local,global]": "scope.window=5 has "
        "no effect beside...",
        "attention.head_scopes=[{name:local,include_self:true},global]": "attention.head_scopes: local has "
        "include_self, which heads share; leave it out, or set scope.include_self",
        "attention.head_scopes=[global,{name:local,sources:[decoder]}]": "attention.head_scopes: local has sources, "
        "which heads share; leave it out, or set scope.sources",
        "attention.head_scopes=[history,global]": "attention.head_scopes=history is over [decoder], but heads share "
        "the sources of scope, [encoder]; set scope=history, or list global",
        "scope=history attention.head_scopes=[encoder_decoder,global]": "...is over [encoder,decoder], but heads share "
        "the sources of scope, [decoder]...",
        "recipe=pointer task=pointing": "...a pointer has one head...",
    },
    "attention.heads=2 model=transformer": {
        "model.position_encoding=rotary attention.head_scorers=[scaled,additive]": "...scorer=additive maps them "
        "first...",
        "scorer=scaled attention.head_scopes=[global,history]": "...head_scopes=history is over [decoder], but heads "
        "share the sources of scope...",
        "attention.head_scopes=[local,global] model.self_scope={name:local,window:5}": "model.self_scope={name:local,"
        "window:5} has no effect beside attention.head_scopes=[local,global]; leave it out",
        "attention.head_scopes=[local,global] model.cross_scope=local": "model.cross_scope=local has no effect...",
        "model.form=decoder_only attention.head_scopes=[history,global]": "...head_scopes=history is over [decoder]...",
        "attention.head_normalizers=[softmax,monotonic]": "...monotonic carries something from step to step...",
    },
    "attention.heads=4": {
        "attention.head_scopes=[local,global,local]": "...but attention.heads=4 is no multiple...",
        "attention.head_scopes=[local]": "...one is no choice among heads; use scope",
        "attention.kv_heads=2 attention.head_scorers=[dot,cosine]": "...heads that share keys compare them alike...",
        "attention.kv_heads=3 scorer=scaled": "...kv_heads=3 does not divide attention.heads=4; choose from 1, 2...",
        "attention.kv_heads=2": "...kv_heads=2 lets heads share keys, but scorer=additive maps them...",
        "model=transformer attention.kv_heads=2 scorer=scaled model.cross_scorer=additive": "...kv_heads=2 lets heads "
        "share keys, but scorer=additive...",
    },
    "attention.hops=2": {
        "task=classification model=classifier query=self_attentive": "...query=[self_attentive] holds none; add "
        "current_state",
        "+query=token": "attention.hops=2 refines a state, and query=[token] holds none; add current_state...",
        "+query=[token,self_attentive]": "...query=[token,self_attentive] holds none...",
        "scorer=coverage": "scorer=coverage needs earlier attention weights, but the hops of a step "
        "(attention.hops=2)...",
        "normalizer=monotonic": "normalizer=monotonic carries something from step to step, but the hops...",
        "recipe=pointer task=pointing": "...no meaning beside model=pointer...",
        "task=classification model=classifier +query=self_attentive": "...query=[self_attentive] holds none...",
    },
    "attention=differential": {
        "attention.heads=1": "...one head has no projections; use attention.heads=2 or more",
        "scorer=coverage": "scorer=coverage needs earlier attention weights...",
        "normalizer=reinforced": "normalizer=reinforced samples positions...",
        "output=copy": "...those of attention=differential do not sum to 1...",
    },
    "attention=differential model=transformer scorer=scaled model.form=decoder_only model.position_encoding=rotary": {
        "model.layers=2 model.mixer=[standard,differential] attention.heads=2": "...the layers of model.mixer have "
        "heads of several...",
    },
    "output=copy": {
        "attention=none": "output=copy copies what attention reads, and attention=none reads nothing...",
        "scope=history": "output=copy copies from the source, but scope.sources=[decoder] does not read it",
        "normalizer=sigmoid": "...weights of normalizer=sigmoid do not sum to 1; use softmax",
        "attention.heads=2 attention.head_normalizers=[softmax,sigmoid]": "...weights of "
        "attention.head_normalizers=[softmax,sigmoid] do not sum to 1; use softmax",
        "model=pointer task=pointing": "output=copy has no effect beside model=pointer...",
    },
    "encoder=pyramid": {
        "model.keys_from=inputs": "...model.keys_from and model.values_from must both be states, not inputs and inputs",
        "model.values_from=layer:1": "...model.keys_from and model.values_from must both be states, not states and "
        "layer:1",
        "model.keys_from=one_hot": "...must both be states, not one_hot and states",
        "model=pointer task=pointing": "encoder=pyramid has fewer states than its source has positions; use "
        "encoder=recurrent",
    },
    "model=transformer": {
        "encoder.hidden_size=7": "encoder.hidden_size=7 has no effect beside model=transformer; leave it out",
        "decoder=recurrent": "decoder=recurrent has no effect beside model=transformer...",
        "readout.tanh=false": "readout.tanh=false has no effect beside model=transformer...",
        "attention=none": "model=transformer needs attention...",
        "model.scheduled_sampling=0.1": "the chosen model has no option 'scheduled_sampling'; it belongs to "
        "model=...seq2seq",
        "+query=token": "query=token does not work with model=transformer...",
        "model.self_scorer=cosin": "unknown scorer 'cosin'; did you mean cosine...",
        "model.self_scorer=3": "model.self_scorer=3: expected a part's name, or {name: ..., and its options} or null",
        "+scorer@model.self_scorer=cosin": "unknown scorer 'cosin'; did you mean cosine...",
        "task=language_model task.train=text.txt": "task=language_model has no source for an encoder to read...",
        "output=copy": "output=copy has no effect beside model=transformer...",
        "scorer=scaled +query=mean_state": "query=mean_state does not work with model=transformer...",
        "task=g2p model.form=encoder_decoder model.mixer=linear": "...use model.form=decoder_only",
        "task=g2p model.form=decoder_only model.mixer=linear": "...use model.prefix=causal, or a task without a "
        "source...",
        "normalizer=reinforced": "normalizer=reinforced samples positions, whose log-probability joins the loss, but "
        "...",
        "model.cross_normalizer=reinforced": "model.cross_normalizer=reinforced samples positions, whose "
        "log-probability joins the loss, but ...",
    },
    "recipe=transformer": {
        "model.cross_bias=alibbi": "unknown bias 'alibbi'; did you mean alibi...",
        "model.form=decoder_only model.cross_bias=alibi": "model.cross_bias=alibi has no effect beside "
        "model.form=decoder_only...",
    },
    "task=language_model model=transformer model.form=decoder_only": {
        "model.mixer=linaer": "unknown mixer 'linaer'; did you mean linear...",
        "model.mixer={name:linear,heads:3}": "...linear with 3 heads needs a multiple of 3 units, but "
        "model.hidden_size=256...",
        "model.mixer=retention model.hidden_size=12": "...retention with 4 heads needs a multiple of 8 units...",
        "model.mixer={name:linear,hads:3}": "the mixer 'linear' has no option 'hads'; did you mean heads...",
        "model.mixer=[linear,standard]": "model.mixer=[linear,standard] names 2 layers, which are repeated, but "
        "model.layers=3...",
        "model.layers=2 model.mixer=[linear,none] model.feedforward_size=0": "...a layer of none is a feed-forward map "
        "alone...",
        "model.mixer=linear model.feedforward_size=0 model.gated=true": "model.gated=true has no effect beside "
        "model.feedforward_size=0...",
        "model.mixer={name:standard,heads:2}": "...set attention.heads instead",
        "model.mixer=linear scorer=dot": "scorer=dot has no effect beside model.mixer=linear...",
        "model.mixer=linear attention.heads=2": "attention.heads=2 has no effect beside model.mixer=linear...",
        "model.mixer=linear scope=history": "scope=history has no effect beside model.mixer=linear; leave it out, or "
        "let a layer attend: model.mixer=[linear,standard]",
        "model.mixer=linear model.self_bias=alibi": "model.self_bias=alibi has no effect beside model.mixer=linear...",
        "model.mixer=linear model.position_encoding=rotary": "...no layer attends with model.mixer=linear...",
    },
    "task=language_model model=transformer model.form=decoder_only model.layers=2 model.mixer=[differential,linear]": {
        "model.tag_inputs=[encoder]": "...task=language_model has no source; use model.tag_inputs=[decoder]",
        "attention.hops=2": "attention.hops=2 has no effect beside model.mixer=[differential,linear]; leave it out, or "
        "name standard in it",
        "attention.kv_heads=3": "attention.kv_heads=3 has no effect beside model.mixer=[differential,linear]...",
        "attention.heads=2 attention.head_scopes=[local,global]": "attention.head_scopes=[local,global] has no effect "
        "beside model.mixer=[differential,linear]...",
        "attention.heads=2 attention.head_normalizers=[sparsemax,softmax]": "attention.head_normalizers=...",
        "attention.heads=2 scorer=dot attention.head_scorers=[dot,scaled]": "attention.head_scorers=[dot,scaled] has "
        "no effect beside model.mixer=[differential,linear]...",
    },
    "task=language_model model=transformer model.form=decoder_only attention=differential attention.heads=2": {
        "model.layers=2 model.mixer=[standard,linear]": "attention=differential has no effect beside "
        "model.mixer=[standard,linear]; leave it out, or name differential in it",
    },
    "task=classification model=classifier": {
        "attention.bias=alibi": "...but a classifier reads once, at no step...",
        "attention=none": "model=classifier needs attention...",
        "scope=history": "...over decoder states, and a classifier has none...",
        "scope=local": "scope=local with center=monotonic moves with the decoder's steps...",
        "attention.heads=2 attention.head_scopes=[local,global]": "attention.head_scopes=local with center=monotonic "
        "moves with the decoder's steps, and a classifier has none; use center=predictive, or global",
        "scorer=coverage": "scorer=coverage needs earlier attention weights...",
        "+query=token": "query=token needs a decoder...",
        "query=[]": "the query is empty...",
        "readout.inputs=[state]": "...a classifier reads the context...",
        "decoding.min_length=2": "decoding.min_length=2 has no effect beside model=classifier...",
        "decoder=recurrent": "...has no effect beside model=classifier...",
        "task.train=a.tsv +query=mean_state": "...mean_state carries something from step to step...",
    },
    "task=classification encoder=co_attention": {
        "task.texts=2 model=seq2seq": "encoder=co_attention has states of two texts, which only model=classifier "
        "reads...",
        "task.texts=2 scope=history": "encoder=co_attention has states of two texts, which only model=classifier "
        "reads...",
        "model=classifier task.texts=2 encoder.scorer=coverage": "...earlier attention weights, but an encoder reads "
        "each text once and adds nothing...",
        "model=classifier task.texts=2 encoder.normalizer=soft": "unknown normalizer 'soft'; did you mean softmax?...",
        "model=classifier task.texts=2 encoder.grain=medium": "encoder.grain=medium: expected one of fine, coarse",
        "model=classifier task.texts=1": "encoder=co_attention reads pairs of texts, ... use task=classification "
        "task.texts=2...",
        "model=classifier task.texts=3": "task.texts=3: expected one of 1, 2",
    },
    "task=classification encoder=hierarchical": {
        "model=seq2seq": "encoder=hierarchical has a state for each sentence, which only model=classifier reads...",
        "model=classifier encoder.scorer=coverage": "encoder.scorer=coverage needs earlier attention weights...",
        "model=classifier encoder.normalizer=soft": "unknown normalizer 'soft'; did you mean softmax?...",
        "model=classifier encoder.normalizer=reinforced": "encoder.normalizer=reinforced samples positions, whose "
        "log-probability joins the loss, but ...",
    },
    "task=listops model=classifier +query=self_attentive": {
        "task.max_args=1": "task.max_args=1: a list has two arguments or more; use 2 or more",
        "task.min_length=2001": "task.min_length=2001 is above task.max_length=2000; lower it",
        "task.max_depth=3 task.max_args=3": "task.min_length=500: with task.max_depth=3 and task.max_args=3 the "
        "longest has 17 symbols",
    },
    "recipe=entnet": {
        "task=g2p": "model=entity answers questions about stories, but task=g2p has none; use task=qa",
        "attention=none": "model=entity needs attention, but attention=none is chosen; remove one of the two",
        "model.schedule=step_by_step": "the chosen model has no option 'schedule'; it belongs to model=history, "
        "pointer, seq2seq",
        "scope=local": "scope=local: slots have no order...",
        "scope=history": "scope=history: slots have no order and there is no decoder; use global",
        "attention.heads=2 attention.head_scopes=[local,global]": "attention.head_scopes=local: slots have no order "
        "and there is no decoder; use global",
        "scope.sources=[encoder,decoder]": "...no decoder states...",
        "scorer=coverage": "scorer=coverage needs earlier attention weights...",
        "model.gate_scorer=location": "model.gate_scorer=location needs earlier attention weights...",
        "normalizer=monotonic": "...but slots have no order, are read once, and add nothing to the loss; use another "
        "normalizer",
        "model.gate_normalizer=monotonic": "model.gate_normalizer=monotonic carries something from step...",
        "model.gate_scorer=dto": "unknown scorer 'dto'; did you mean dot?...",
        "model.gate_normalizer=sigmod": "unknown normalizer 'sigmod'; did you mean sigmoid?...",
        "decoding.min_length=2": "decoding.min_length=2 has no effect...",
        "decoding.no_repeat_ngram_size=3": "decoding.no_repeat_ngram_size=3 has no effect...",
        "model.keys=tied": "...task.entities=[mary,john]",
        "task.entities=[mary,john]": "...is for model.keys=tied...",
        "task.entities=[mary,john] model.keys=tied model.num_slots=3": "model.num_slots=3, but task.entities has 2 "
        "words...",
        "+query=token": "query=token has no effect beside model=entity...",
        "encoder.hidden_size=3": "encoder.hidden_size=3 has no effect beside model=entity...",
        "decoder=recurrent": "decoder=recurrent has no effect beside model=entity...",
        "readout.hidden_size=3": "readout.hidden_size=3 has no effect beside model=entity...",
        "attention.bias=alibi": "attention.bias=alibi depends on distances, but slots have...",
    },
    "task=qa model=entity": {
        "model.gate_normalizer=reinforced": "model.gate_normalizer=reinforced samples positions, whose log-probability "
        "joins the loss, but ...",
        "normalizer=reinforced": "normalizer=reinforced samples positions, whose log-probability joins the loss, but "
        "...",
    },
    "recipe=pointer task=pointing": {
        "attention.bias=alibi": "attention.bias=alibi depends on distances, but a pointer's source...",
        "+query=mean_state": "...mean_state carries something from step to step...",
        "attention=none": "model=pointer needs attention...",
        "normalizer=sparsemax": "normalizer=sparsemax: a pointer's weights are probabilities...",
        "attention.dropout=0.1": "attention.dropout=0.1 would drop output probabilities...",
        "scope=history": "scope=history: a pointer may output any position...",
        "scope.sources=[encoder,decoder]": "a pointer outputs positions of its source...",
        "query=[current_state,last_context]": "query=last_context needs a context...",
        "query=token": "query=[token] has no decoder state...",
        "readout.inputs=[state]": "readout.inputs=[state] has no effect beside model=pointer...",
        "model.constraint=permutation": "...does not allow the answers of task.problem=hull; choose from any, ring",
        "model.constraint=rings": "...expected one of any, distinct, permutation, ring",
        "model.feed=next": "the chosen model has no option 'feed'; it belongs to model=history, seq2seq",
        "model.schedule=attend_then_run": "model.schedule=attend_then_run is not possible...",
        "task.problem=delaunay model.constraint=ring": "model.constraint=ring does not allow the answers of "
        "task.problem=delaunay; choose from any",
    },
}
CASES = [(f"{common} {words}".split(), text) for common, texts in REFUSED.items() for words, text in texts.items()]


@pytest.mark.parametrize(("words", "text"), CASES, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_what_does_not_go_together_is_refused_in_a_line(words, text):
    with refused(text):
        compose(words)
