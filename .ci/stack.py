"""CloudFormation's part of a deployment, as far as template.yaml needs it: parameters and their limits, rules,
conditions and intrinsic functions."""

import re

from samcli.yamlhelper import yaml_parse

NOTHING = object()


def read(path):
    """A template with its tags as CloudFormation's long forms."""
    return yaml_parse(path.read_text())


def parameters(template, given, previous=None):
    """The values of a stack: as given, else as they were, else the defaults."""
    values = {}
    for name, parameter in template["Parameters"].items():
        for source in (given, previous or {}, {name: parameter.get("Default")}):
            if source.get(name) is not None:
                values[name] = str(source[name])
                break
    return values


def refusals(template, values):
    """Why CloudFormation would not take these values."""
    for name, parameter in template["Parameters"].items():
        if name not in values:
            yield f"{name} has no value"
            continue
        value, is_list = values[name], parameter["Type"] == "CommaDelimitedList"
        for item in value.split(",") if is_list else [value]:
            pattern = parameter.get("AllowedPattern")
            if pattern and not re.fullmatch(pattern, item):
                yield f"{name}: {item!r} does not match {pattern}"
            allowed = [str(it) for it in parameter.get("AllowedValues", [item])]
            if item not in allowed:
                yield f"{name}: {item!r} is none of {allowed}"
        if parameter["Type"] == "Number":
            low, high = parameter.get("MinValue", float("-inf")), parameter.get("MaxValue", float("inf"))
            if not float(low) <= float(value) <= float(high):
                yield f"{name}: {value} is out of its range"
        if len(value) > 4096:
            yield f"{name}: over 4,096 characters"
    stack = Stack(template, values)
    for name, rule in template.get("Rules", {}).items():
        if "RuleCondition" in rule and not stack.resolve(rule["RuleCondition"]):
            continue
        for assertion in rule["Assertions"]:
            if not stack.resolve(assertion["Assert"]):
                yield f"{name}: {assertion['AssertDescription']}"


class Stack:
    """A template with the values of its parameters."""

    PSEUDO = {
        "AWS::AccountId": "111122223333", "AWS::Region": "eu-central-1", "AWS::Partition": "aws",
        "AWS::NoValue": NOTHING,
    }  # fmt: skip

    def __init__(self, template, values, partition="aws", named="cloud-map-sync"):
        self.template, self.values, self.partition, self.named = template, values, partition, named

    def condition(self, name):
        return self.resolve(self.template["Conditions"][name])

    def resources(self, kind):
        """Every resource of a type that the stack has, resolved, by name."""
        found = {}
        for name, resource in self.template["Resources"].items():
            if resource["Type"] == kind and ("Condition" not in resource or self.condition(resource["Condition"])):
                found[name] = self.resolve(resource["Properties"])
        return found

    def outputs(self):
        """Every output that the stack has, resolved, by name."""
        outputs = self.template["Outputs"].items()
        return {
            name: self.resolve(output["Value"])
            for name, output in outputs
            if "Condition" not in output or self.condition(output["Condition"])
        }

    def resolve(self, value):
        """The value with every intrinsic function carried out; of a resource only its name is known."""
        if isinstance(value, list):
            return [it for it in map(self.resolve, value) if it is not NOTHING]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            (function, argument), = value.items()
            if function == "Condition" and isinstance(argument, str):
                return self.condition(argument)
            if function == "Ref" or function.startswith("Fn::"):
                return getattr(self, "_" + function.removeprefix("Fn::").lower())(argument)
        resolved = {key: self.resolve(field) for key, field in value.items()}
        return {key: field for key, field in resolved.items() if field is not NOTHING}

    def _ref(self, name):
        if name == "AWS::Partition":
            return self.partition
        if name == "AWS::StackName":
            return self.named
        if name in self.PSEUDO:
            return self.PSEUDO[name]
        if name not in self.values:
            return name
        is_list = self.template["Parameters"][name]["Type"] == "CommaDelimitedList"
        return self.values[name].split(",") if is_list else self.values[name]

    def _getatt(self, argument):
        parts = argument.split(".") if isinstance(argument, str) else argument
        return f"arn:of:{parts[0]}"

    def _sub(self, argument):
        text, own = argument if isinstance(argument, list) else (argument, {})
        def replaced(found):
            name = found[1]
            if name.startswith("!"):
                return "${" + name[1:] + "}"
            value = self.resolve(own[name]) if name in own else self._ref(name.split(".")[0])
            return str(value)
        return re.sub(r"\$\{([^}]+)\}", replaced, text)

    def _if(self, argument):
        name, then, otherwise = argument
        return self.resolve(then if self.condition(name) else otherwise)

    def _findinmap(self, argument):
        name, first, second = map(self.resolve, argument)
        return self.template["Mappings"][name][first][second]

    def _join(self, argument):
        assert isinstance(argument[0], str), "CloudFormation takes no function as the delimiter"
        return argument[0].join(map(str, self.resolve(argument[1])))

    def _split(self, argument):
        return self.resolve(argument[1]).split(argument[0])

    def _equals(self, argument):
        first, second = map(self.resolve, argument)
        return str(first) == str(second)

    def _not(self, argument):
        return not self.resolve(argument[0])

    def _and(self, argument):
        return all(map(self.resolve, argument))

    def _or(self, argument):
        return any(map(self.resolve, argument))

    def _contains(self, argument):
        listed, value = argument[0], self.resolve(argument[1])
        return str(value) in [str(self.resolve(it)) for it in listed]
