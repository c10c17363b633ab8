"""Train what is missing of the claims, for some minutes, and write docs/claims.md.

    python -m studies.claims --minutes 60 -j 2
    python -m studies.claims hull_5 tsp_10         # only these claims
    python -m studies.claims --merge FILE          # a results.csv, with the evaluations.csv beside it

It needs the data of the experiments in $ATTNX_DATA (docs/data.md). Ctrl-C, or the end of the minutes, stops it cleanly:
runs that were under way go on from their checkpoints the next time. A run whose row is in results.csv is never trained
again.
"""

from __future__ import annotations

import sys
from pathlib import Path

from attnx.errors import ExitCode, UserError
from studies.attnx_process import Deadline
from studies.claims.claim import Claim, read_claims
from studies.claims.evaluations import EvaluatedClaim, evaluate_claim, read_evaluations, write_evaluations
from studies.claims.page import claims_page
from studies.job import write_experiments
from studies.results import Results
from studies.study import Study, select_names, study_parser

NAME, HERE, BUILD = "claims", Path(__file__).parent, Path("build/claims")
PAGE = Path("docs/claims.md")


def main() -> int:
    """Parse the command line, train, evaluate, and write the page."""
    parser = study_parser(NAME, __doc__)
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help="a claim to train; all of them, if none is named")
    parser.add_argument("--merge", type=Path, metavar="FILE", help="add the runs of another table, and train none")
    arguments = parser.parse_args()
    claims = read_claims(HERE / "claims.yaml")
    planned = sorted((job for claim in claims.values() for job in claim.jobs), key=lambda job: job.seed)
    try:
        selected = select_names(arguments.claims, claims, "claims.yaml")
        results = Results(HERE / "results.csv", planned)
        evaluations = read_evaluations(HERE / "evaluations.csv")
        if arguments.merge:
            results.add_table(arguments.merge)
            evaluations = read_evaluations(arguments.merge.with_name("evaluations.csv")) | evaluations
            write_evaluations(HERE / "evaluations.csv", list(evaluations.values()))
        else:
            write_experiments(BUILD, planned, {name: claim.experiment for name, claim in claims.items()})
            study = Study(NAME, BUILD, planned, results, arguments.jobs, Deadline(arguments.minutes))
            study.train_missing(lambda job: job.task in selected and not claims[job.task].is_decided(results))
            for name, claim in claims.items():
                if name in selected and claim.evaluate and name not in evaluations:
                    evaluate(claim, claims[claim.runs or name], study, evaluations)
    except UserError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return ExitCode.USER_ERROR
    PAGE.write_text(claims_page(list(claims.values()), results, evaluations), encoding="utf-8")
    missing = len(planned) - len(results.runs)
    print(f"{len(results.runs)} of {len(planned)} runs are in {results.path}, {missing} are missing; {PAGE}")
    return ExitCode.FINISHED


def evaluate(claim: Claim, source: Claim, study: Study, evaluations: dict[str, EvaluatedClaim]) -> None:
    """Evaluate a claim once its first run, or if it is of an ensemble all of them, have been trained here."""
    needed = source.jobs if claim.ensemble else source.jobs[:1]
    trained = [folder for job in needed if job not in study.missing and (folder := study.folder(job)) is not None]
    if study.deadline.has_passed or len(trained) < len(needed):
        return
    evaluations[claim.name] = evaluate_claim(claim, trained)
    write_evaluations(HERE / "evaluations.csv", list(evaluations.values()))


if __name__ == "__main__":
    sys.exit(main())
