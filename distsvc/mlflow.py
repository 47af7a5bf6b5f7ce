"""Published models in MLflow: log them, register them, and load them again without pickle.

MLflow stores the two files of a published model, JSON and arrays. Models of `mlflow.pyfunc` take
raw rows, such as a pandas DataFrame, and return a DataFrame of the published columns. Needs
``pip install 'distsvc[mlflow]'``.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distsvc import __version__
from distsvc.published.run import Run, load
from distsvc.published.saved_model import Model, read_saved_model
from distsvc.run.model.files import FILES
from distsvc.storage.places.process import scratch

if TYPE_CHECKING:
    import pandas as pd

FLAVOR_NAME = "distsvc"

_MLFLOW_TYPES = {"int32": "integer", "int64": "long", "float": "float", "bool": "boolean"}
"""MLflow types by Arrow type. Published columns of all other Arrow types become strings."""


def log_model(run: Run | str | os.PathLike[str], name: str = "model", **options: Any) -> Any:
    """Log the model of a published run to MLflow's active run, or to a new one.

    Parameters
    ----------
    run : Run, str or path
        A run or its path.
    name : str, default="model"
        The name of the model in MLflow.
    **options
        Further options of `save_model`, and of ``mlflow.models.Model.log``, such as
        ``registered_model_name``.

    Returns
    -------
    mlflow.models.model.ModelInfo

    Raises
    ------
    DistsvcError
        The run or its model can't be loaded; `distsvc.load` and `Run.model` list the reasons.

    See Also
    --------
    load_model : Loads a logged model.

    Examples
    --------
    >>> import distsvc.mlflow
    >>> logged = distsvc.mlflow.log_model("out/moons", "moons")
    >>> distsvc.mlflow.load_model(logged.model_uri).n_clusters
    2

    """
    from mlflow.models import Model as Logged

    flavor, run = sys.modules[__name__], run if isinstance(run, Run) else load(run)
    return Logged.log(artifact_path=None, name=name, flavor=flavor, run=run, **options)


def save_model(
    run: Run | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    mlflow_model: Any = None,
    signature: Any = None,
    pip_requirements: Any = None,
    **options: Any,
) -> None:
    """Save the model of a published run as an MLflow model, to a new folder.

    Parameters
    ----------
    run : Run, str or path
        A run or its path.
    path : str or path
        The new folder.
    mlflow_model : mlflow.models.Model or None, default=None
        Description to which the files and the signature are added; a new one if None.
    signature : mlflow.models.ModelSignature or None, default=None
        Columns of input and output. By default, inputs are the columns that the model reads and
        its id column, all of any type. Outputs are the published columns.
    pip_requirements : list of str or None, default=None
        Requirements of the saved model. By default, those of the option ``conda_env`` if it is
        given, else this version of distsvc.
    **options
        Options of ``mlflow.pyfunc.save_model``, such as ``metadata`` and ``input_example``.

    See Also
    --------
    log_model : Saves the model in a run of MLflow.

    Examples
    --------
    >>> import distsvc.mlflow
    >>> distsvc.mlflow.save_model("out/moons", "saved")
    >>> distsvc.mlflow.load_model("saved").n_clusters
    2

    """
    import mlflow.pyfunc
    from mlflow.models import Model as Saved

    run = run if isinstance(run, Run) else load(run)
    described = mlflow_model if mlflow_model is not None else Saved()
    described.add_flavor(FLAVOR_NAME, distsvc_version=__version__, run_id=run.manifest["run_id"])
    described.signature = _signature(run.model) if signature is None else signature
    if pip_requirements is None and "conda_env" not in options:
        pip_requirements = [f"{FLAVOR_NAME}[mlflow]=={__version__}"]
    with scratch("model") as folder:
        data = folder / "data"
        data.mkdir()
        for name in FILES:
            shutil.copy(run.model_folder / name, data)
        mlflow.pyfunc.save_model(
            os.fspath(path),
            loader_module=__name__,
            data_path=os.fspath(data),
            mlflow_model=described,
            pip_requirements=pip_requirements,
            **options,
        )


def load_model(model_uri: str, dst_path: str | None = None) -> Model:
    """Load a model from MLflow, as a `distsvc.published.saved_model.Model`.

    Parameters
    ----------
    model_uri : str
        MLflow's URI, such as ``models:/shuttle/1`` or ``runs:/ID/model``, or a folder.
    dst_path : str or None, default=None
        Folder to which the model is downloaded; MLflow's default if None.

    Returns
    -------
    Model

    See Also
    --------
    log_model : Logs a model.

    Examples
    --------
    >>> import distsvc.mlflow
    >>> distsvc.mlflow.save_model("out/moons", "kept")
    >>> distsvc.mlflow.load_model("kept").columns
    ('x', 'y')

    """
    from mlflow.artifacts import download_artifacts
    from mlflow.models import Model as Saved

    folder = download_artifacts(artifact_uri=model_uri, dst_path=dst_path)
    data = Saved.load(folder).flavors["python_function"]["data"]
    return read_saved_model(Path(folder) / data)


class _Labels:
    """A model in the form that `mlflow.pyfunc` needs."""

    def __init__(self, model: Model):
        self._model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> "pd.DataFrame":
        """Label raw rows and return the columns that the job publishes; keep the frame's index."""
        import pandas as pd

        labels = self._model.label(model_input).to_pandas()
        is_frame = isinstance(model_input, pd.DataFrame)
        return labels.set_index(model_input.index) if is_frame else labels

    def get_raw_model(self) -> Model:
        """Return the model, for MLflow's `unwrap_python_model`."""
        return self._model


def _load_pyfunc(path: str) -> _Labels:
    """Return the model for `mlflow.pyfunc.load_model`."""
    return _Labels(read_saved_model(Path(path)))


def _signature(model: Model) -> Any:
    # Input columns have any type, since the model checks their values.
    from mlflow.models import ModelSignature
    from mlflow.types.schema import AnyType, ColSpec, Schema

    inputs = [ColSpec(AnyType(), name) for name in dict.fromkeys(model.columns)]
    if model.id is not None and model.id not in model.columns:
        inputs.append(ColSpec(AnyType(), model.id, required=False))
    given = [ColSpec(_MLFLOW_TYPES.get(str(f.type), "string"), f.name) for f in model.published]
    return ModelSignature(inputs=Schema(inputs), outputs=Schema(given))
